# Sources of kernels/kv_format.
target_sources(loci_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/kv_layer.cc)
