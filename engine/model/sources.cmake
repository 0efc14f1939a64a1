# Sources of engine/model.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/arch_list.cc
  ${CMAKE_CURRENT_LIST_DIR}/arch_reader.cc
  ${CMAKE_CURRENT_LIST_DIR}/archs/gemma3.cc
  ${CMAKE_CURRENT_LIST_DIR}/archs/llama.cc
  ${CMAKE_CURRENT_LIST_DIR}/archs/qwen2.cc
  ${CMAKE_CURRENT_LIST_DIR}/archs/qwen3.cc
  ${CMAKE_CURRENT_LIST_DIR}/attention_block.cc
  ${CMAKE_CURRENT_LIST_DIR}/decoder.cc
  ${CMAKE_CURRENT_LIST_DIR}/ffn_block.cc
  ${CMAKE_CURRENT_LIST_DIR}/matrix_work.cc
  ${CMAKE_CURRENT_LIST_DIR}/rope.cc
  ${CMAKE_CURRENT_LIST_DIR}/weights.cc
)
