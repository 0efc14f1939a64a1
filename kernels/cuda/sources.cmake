# Sources of kernels/cuda, built by nvcc with LOCI_CUDA=ON only.
if(LOCI_CUDA)
  target_sources(loci_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/device_list.cu)
  target_compile_definitions(loci_kernels PRIVATE LOCI_CUDA)
  target_link_libraries(loci_kernels PUBLIC CUDA::cudart_static)
endif()
