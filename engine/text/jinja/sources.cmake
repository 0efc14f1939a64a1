# Sources of engine/text/jinja.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/filters_list.cc
  ${CMAKE_CURRENT_LIST_DIR}/filters_text.cc
  ${CMAKE_CURRENT_LIST_DIR}/format.cc
  ${CMAKE_CURRENT_LIST_DIR}/functions.cc
  ${CMAKE_CURRENT_LIST_DIR}/interpreter.cc
  ${CMAKE_CURRENT_LIST_DIR}/lexer.cc
  ${CMAKE_CURRENT_LIST_DIR}/operators.cc
  ${CMAKE_CURRENT_LIST_DIR}/parser.cc
  ${CMAKE_CURRENT_LIST_DIR}/strftime.cc
  ${CMAKE_CURRENT_LIST_DIR}/string_methods.cc
  ${CMAKE_CURRENT_LIST_DIR}/string_ops.cc
  ${CMAKE_CURRENT_LIST_DIR}/tests.cc
  ${CMAKE_CURRENT_LIST_DIR}/text.cc
  ${CMAKE_CURRENT_LIST_DIR}/to_text.cc
  ${CMAKE_CURRENT_LIST_DIR}/unicode.cc
  ${CMAKE_CURRENT_LIST_DIR}/value.cc
)
