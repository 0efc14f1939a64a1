// Endpoints that clients know and this build does not have. Each says why.
#include "server/endpoints/endpoints.h"

namespace loci::server {
namespace {

[[noreturn]] void refuse(const char* what) { fail(ErrorKind::kUnsupported, "not supported by this build: ", what); }

}  // namespace

void serve_no_rerank(Service&, Exchange&) { refuse("reranking (no architecture with a head for it)"); }
void serve_no_adapters(Service&, Exchange&) { refuse("LoRA adapters"); }
void serve_no_media(Service&, Exchange&) { refuse("images and audio (models see and write text only)"); }
void serve_no_model_changes(Service&, Exchange&) {
  refuse("several models (the server has the one it was started with)");
}
void serve_no_slot_files(Service&, Exchange&) { refuse("saving and restoring slots"); }
void serve_no_control(Service&, Exchange&) { refuse("steering an answer while it is made"); }

}  // namespace loci::server
