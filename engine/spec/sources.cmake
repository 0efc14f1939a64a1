# Sources of engine/spec.
target_sources(loci_engine PRIVATE
  ${CMAKE_CURRENT_LIST_DIR}/acceptance.cc
  ${CMAKE_CURRENT_LIST_DIR}/cost_curve.cc
  ${CMAKE_CURRENT_LIST_DIR}/draft_model.cc
  ${CMAKE_CURRENT_LIST_DIR}/drafts.cc
  ${CMAKE_CURRENT_LIST_DIR}/draft_tree.cc
  ${CMAKE_CURRENT_LIST_DIR}/drafter_list.cc
  ${CMAKE_CURRENT_LIST_DIR}/mode_names.cc
  ${CMAKE_CURRENT_LIST_DIR}/model_drafter.cc
  ${CMAKE_CURRENT_LIST_DIR}/ngram_drafter.cc
  ${CMAKE_CURRENT_LIST_DIR}/ngram_index.cc
  ${CMAKE_CURRENT_LIST_DIR}/rejection.cc
  ${CMAKE_CURRENT_LIST_DIR}/speculator.cc
)
