# Sources of engine/sampling: target_sources(loci_engine PRIVATE ${CMAKE_CURRENT_LIST_DIR}/x.cc)
