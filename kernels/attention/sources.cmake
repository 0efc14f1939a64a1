# Sources of kernels/attention.
target_sources(loci_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/split_plan.cc)
