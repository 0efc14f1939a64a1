# Sources of kernels/cpu: plain ones, and the kernel units that are compiled once per instruction set.
target_sources(loci_kernels PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/cpu_backend.cc
  ${CMAKE_CURRENT_LIST_DIR}/cpu_backend_attention.cc
  ${CMAKE_CURRENT_LIST_DIR}/cpu_backend_elementwise.cc
  ${CMAKE_CURRENT_LIST_DIR}/cpu_backend_matmul.cc
  ${CMAKE_CURRENT_LIST_DIR}/cpu_count.cc
  ${CMAKE_CURRENT_LIST_DIR}/cpu_weight.cc
  ${CMAKE_CURRENT_LIST_DIR}/huge_memory.cc
  ${CMAKE_CURRENT_LIST_DIR}/isa.cc
  ${CMAKE_CURRENT_LIST_DIR}/placement.cc
  ${CMAKE_CURRENT_LIST_DIR}/repack.cc
  ${CMAKE_CURRENT_LIST_DIR}/repack_full.cc
  ${CMAKE_CURRENT_LIST_DIR}/roofline.cc
  ${CMAKE_CURRENT_LIST_DIR}/thread_pool.cc
)

# loci_isa_compile_settings(name simd_header flags...): how the units of loci_cpu_<name> are compiled, in namespace
# loci::cpu::<name>.  loci_isa_settings(...): the same, and they belong to loci_kernels.
# -fno-ipa-modref -fno-ipa-pure-const: g++ 12.2 otherwise drops memcpy stores in inlined vector code.
# -Wno-maybe-uninitialized: its intrinsics headers pass deliberately undefined registers.
function(loci_isa_compile_settings isa simd_header)
  target_link_libraries(loci_cpu_${isa} PRIVATE loci_flags)
  target_compile_definitions(loci_cpu_${isa} PRIVATE LOCI_ISA=${isa} LOCI_SIMD_HEADER="kernels/cpu/${simd_header}")
  target_compile_options(loci_cpu_${isa} PRIVATE ${ARGN} -fno-exceptions -ffp-contract=off)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(loci_cpu_${isa} PRIVATE -fno-ipa-modref -fno-ipa-pure-const -Wno-psabi
                           -Wno-maybe-uninitialized)
  endif()
endfunction()
function(loci_isa_settings isa)
  loci_isa_compile_settings(${isa} ${ARGN})
  target_sources(loci_kernels PRIVATE $<TARGET_OBJECTS:loci_cpu_${isa}>)
endfunction()

# loci_add_isa(name simd_header flags...): the kernel units for one instruction set.
function(loci_add_isa isa simd_header)
  add_library(loci_cpu_${isa} OBJECT ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/isa_kernels.cc
                                     ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/isa_roofline.cc)
  # Attention has no use for VNNI: the same code as without, compiled once.
  if(isa STREQUAL "avx512vnni")
    set(attention_isa avx512)
  elseif(isa STREQUAL "avxvnni")
    set(attention_isa avx2)
  else()
    set(attention_isa ${isa})
    target_sources(loci_cpu_${isa} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/isa_attention.cc)
  endif()
  target_compile_definitions(loci_cpu_${isa} PRIVATE LOCI_ATTENTION_ISA=${attention_isa})
  loci_isa_settings(${isa} ${simd_header} ${ARGN})
endfunction()

# What the kernels of an x86 instruction set need, as /proc/cpuinfo names it.
set(LOCI_CPU_ISAS all CACHE STRING "Instruction sets to build kernels for: all, native (this CPU's), or a list of them")
set(avx2_needs avx2 fma f16c)
set(avxvnni_needs ${avx2_needs} avx_vnni)
set(avx512_needs ${avx2_needs} avx512f avx512bw avx512dq avx512vl)
set(avx512vnni_needs ${avx512_needs} avx512_vnni)
set(amx_needs ${avx512vnni_needs} amx_tile amx_int8)
set(avx512bf16_needs ${avx512_needs} avx512_bf16)

# loci_isa_wanted(name variable): whether LOCI_CPU_ISAS asks for it.
function(loci_isa_wanted isa wanted)
  set(${wanted} FALSE PARENT_SCOPE)
  if(LOCI_CPU_ISAS STREQUAL "native")
    file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
    string(REGEX REPLACE "[ \t]+" ";" flags "${flags}")
    foreach(need IN LISTS ${isa}_needs)
      if(NOT need IN_LIST flags)
        return()
      endif()
    endforeach()
  elseif(NOT LOCI_CPU_ISAS STREQUAL "all" AND NOT isa IN_LIST LOCI_CPU_ISAS)
    return()
  endif()
  set(${wanted} TRUE PARENT_SCOPE)
  string(TOUPPER ${isa} upper)
  target_compile_definitions(loci_kernels PRIVATE LOCI_HAS_${upper})
endfunction()

loci_add_isa(scalar simd_scalar.h)
set(LOCI_ISAS scalar)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(avx2_flags -mavx2 -mfma -mf16c)
  set(avx512_flags ${avx2_flags} -mavx512f -mavx512bw -mavx512dq -mavx512vl)
  loci_isa_wanted(avx2 wanted)
  if(wanted)
    loci_add_isa(avx2 simd_avx2.h ${avx2_flags})
    list(APPEND LOCI_ISAS avx2)
    # A set with VNNI shares the attention kernels of the one without: it does not come alone.
    loci_isa_wanted(avxvnni wanted)
    if(wanted)
      loci_add_isa(avxvnni simd_avx2.h ${avx2_flags} -mavxvnni)
      list(APPEND LOCI_ISAS avxvnni)
    endif()
  endif()
  loci_isa_wanted(avx512 wanted)
  if(wanted)
    loci_add_isa(avx512 simd_avx512.h ${avx512_flags})
    list(APPEND LOCI_ISAS avx512)
    loci_isa_wanted(avx512vnni wanted)
    if(wanted)
      loci_add_isa(avx512vnni simd_avx512.h ${avx512_flags} -mavx512vnni)
      list(APPEND LOCI_ISAS avx512vnni)
      loci_isa_wanted(amx wanted)
      if(wanted)
        add_library(loci_cpu_amx OBJECT ${CMAKE_CURRENT_LIST_DIR}/isa_amx.cc)
        loci_isa_settings(amx simd_avx512.h ${avx512_flags} -mavx512vnni -mamx-tile -mamx-int8)
        list(APPEND LOCI_ISAS amx)
      endif()
    endif()
    # Not a choice of its own: the bf16 peak of AVX-512 machines.
    loci_isa_wanted(avx512bf16 wanted)
    if(wanted)
      add_library(loci_cpu_avx512bf16 OBJECT ${CMAKE_CURRENT_LIST_DIR}/isa_roofline.cc)
      loci_isa_settings(avx512bf16 simd_avx512.h ${avx512_flags} -mavx512bf16)
    endif()
  endif()
endif()
set(LOCI_ISAS ${LOCI_ISAS} CACHE INTERNAL "Instruction sets that this build holds kernels for")
