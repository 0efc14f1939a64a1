# Sources of engine/constraint.
if(LOCI_HAS_XGRAMMAR)
  set(loci_matcher xgrammar_matcher.cc)
  target_link_libraries(loci_engine PRIVATE loci_xgrammar)
else()
  set(loci_matcher missing_matcher.cc)
endif()
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/constraint.cc
  ${CMAKE_CURRENT_LIST_DIR}/gbnf.cc
  ${CMAKE_CURRENT_LIST_DIR}/grammar.cc
  ${CMAKE_CURRENT_LIST_DIR}/mask_worker.cc
  ${CMAKE_CURRENT_LIST_DIR}/number_range.cc
  ${CMAKE_CURRENT_LIST_DIR}/regex.cc
  ${CMAKE_CURRENT_LIST_DIR}/${loci_matcher}
)
