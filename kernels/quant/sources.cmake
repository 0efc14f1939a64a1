# Sources of kernels/quant: target_sources(loci_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/x.cc)
target_sources(loci_kernels PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/dequantize.cc
)
