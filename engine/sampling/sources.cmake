# Sources of engine/sampling.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/dry.cc
  ${CMAKE_CURRENT_LIST_DIR}/sampler.cc
  ${CMAKE_CURRENT_LIST_DIR}/sampler_vocab.cc
  ${CMAKE_CURRENT_LIST_DIR}/steps.cc
)
