# Sources of engine/text: target_sources(loci_engine PRIVATE ${CMAKE_CURRENT_LIST_DIR}/x.cc)
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/bpe_tokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/builtin_templates.cc
  ${CMAKE_CURRENT_LIST_DIR}/chat_template.cc
  ${CMAKE_CURRENT_LIST_DIR}/detokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/merge_table.cc
  ${CMAKE_CURRENT_LIST_DIR}/pattern.cc
  ${CMAKE_CURRENT_LIST_DIR}/pre_tokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/special_matcher.cc
  ${CMAKE_CURRENT_LIST_DIR}/spm_merger.cc
  ${CMAKE_CURRENT_LIST_DIR}/spm_tokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/string_table.cc
  ${CMAKE_CURRENT_LIST_DIR}/tokenizer.cc
  ${CMAKE_CURRENT_LIST_DIR}/unicode.cc
  ${CMAKE_CURRENT_LIST_DIR}/unicode_tables.cc
  ${CMAKE_CURRENT_LIST_DIR}/vocabulary.cc
  ${CMAKE_CURRENT_LIST_DIR}/wordpiece_tokenizer.cc
)
find_library(LOCI_SENTENCEPIECE sentencepiece REQUIRED)
target_link_libraries(loci_engine PRIVATE ${LOCI_SENTENCEPIECE})
include(${CMAKE_CURRENT_LIST_DIR}/jinja/sources.cmake)
