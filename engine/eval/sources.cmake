# Sources of engine/eval.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/divergence.cc
  ${CMAKE_CURRENT_LIST_DIR}/logits_file.cc
  ${CMAKE_CURRENT_LIST_DIR}/perplexity.cc
)
