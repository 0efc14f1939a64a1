# xgrammar: grammars, their compiler and matchers, as a static library with its own flags. scripts/setup.sh puts the
# sources of the version below where LOCI_XGRAMMAR_DIR looks; without them the program builds and refuses structured
# output ("not built in").
set(LOCI_XGRAMMAR_VERSION 0.2.9)
if(DEFINED ENV{XDG_CACHE_HOME})
  set(loci_cache $ENV{XDG_CACHE_HOME}/loci)
else()
  set(loci_cache $ENV{HOME}/.cache/loci)
endif()
set(LOCI_XGRAMMAR_DIR ${loci_cache}/sources/xgrammar-${LOCI_XGRAMMAR_VERSION} CACHE PATH
    "Unpacked source package of xgrammar; empty: build without structured output")
set(LOCI_XGRAMMAR_REQUIRED OFF CACHE BOOL "Fail when xgrammar's sources are missing")

set(LOCI_HAS_XGRAMMAR OFF)
if(LOCI_XGRAMMAR_DIR AND EXISTS ${LOCI_XGRAMMAR_DIR}/cpp/grammar_matcher.cc)
  set(LOCI_HAS_XGRAMMAR ON)
elseif(LOCI_XGRAMMAR_REQUIRED AND LOCI_XGRAMMAR_DIR)
  message(FATAL_ERROR "xgrammar: expected its sources in '${LOCI_XGRAMMAR_DIR}', found none; run scripts/setup.sh")
elseif(LOCI_XGRAMMAR_DIR)
  message(WARNING "xgrammar: no sources in '${LOCI_XGRAMMAR_DIR}' (scripts/setup.sh fetches them): "
                  "structured output is not built in")
endif()

if(LOCI_HAS_XGRAMMAR)
  file(GLOB loci_xgrammar_sources ${LOCI_XGRAMMAR_DIR}/cpp/*.cc ${LOCI_XGRAMMAR_DIR}/cpp/converter_ext/*.cc
       ${LOCI_XGRAMMAR_DIR}/cpp/support/*.cc)
  add_library(loci_xgrammar STATIC ${loci_xgrammar_sources})
  target_compile_features(loci_xgrammar PRIVATE cxx_std_17)
  set_target_properties(loci_xgrammar PROPERTIES CXX_STANDARD 17)
  target_compile_options(loci_xgrammar PRIVATE -w -O2 -g0)
  target_compile_definitions(loci_xgrammar PUBLIC XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0)
  target_include_directories(loci_xgrammar SYSTEM PUBLIC
    ${LOCI_XGRAMMAR_DIR}/include ${LOCI_XGRAMMAR_DIR}/3rdparty/dlpack/include)
  target_include_directories(loci_xgrammar SYSTEM PRIVATE ${LOCI_XGRAMMAR_DIR}/3rdparty/picojson)
  target_link_libraries(loci_xgrammar PRIVATE Threads::Threads)
  if(LOCI_SANITIZE)
    target_compile_options(loci_xgrammar PRIVATE -fsanitize=${LOCI_SANITIZE} -fno-omit-frame-pointer)
  endif()
endif()
