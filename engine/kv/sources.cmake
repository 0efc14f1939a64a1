# Sources of engine/kv.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/cache_file.cc
  ${CMAKE_CURRENT_LIST_DIR}/kv_formats.cc
  ${CMAKE_CURRENT_LIST_DIR}/kv_manager.cc
  ${CMAKE_CURRENT_LIST_DIR}/kv_memory.cc
  ${CMAKE_CURRENT_LIST_DIR}/page_pool.cc
  ${CMAKE_CURRENT_LIST_DIR}/pool_size.cc
  ${CMAKE_CURRENT_LIST_DIR}/radix_tree.cc
  ${CMAKE_CURRENT_LIST_DIR}/window_pages.cc
)
