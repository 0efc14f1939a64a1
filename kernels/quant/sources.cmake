# Sources of kernels/quant: target_sources(loci_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/x.cc)
target_sources(loci_kernels PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/dequantize.cc
  ${CMAKE_CURRENT_LIST_DIR}/pack_k.cc
  ${CMAKE_CURRENT_LIST_DIR}/pack_legacy.cc
  ${CMAKE_CURRENT_LIST_DIR}/quantize.cc
  ${CMAKE_CURRENT_LIST_DIR}/search.cc
)
