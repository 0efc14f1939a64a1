#include "server/tools/call_id.h"

#include <cstdint>

namespace loci::server {

std::string call_id(std::string_view seed, int call, int n_bytes) {
  // FNV-1a over the seed, then splitmix64: ids need to differ, nothing else.
  uint64_t state = 0xcbf29ce484222325;
  for (const char byte : seed) state = (state ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  state += static_cast<uint64_t>(call) * 0xd1342543de82ef95;
  static constexpr char kDigits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id = n_bytes > 0 ? "" : "call_";
  for (int i = 0; i < (n_bytes > 0 ? n_bytes : 24); ++i) {
    state += 0x9e3779b97f4a7c15;
    uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    id += kDigits[(mixed ^ (mixed >> 31)) % 62];
  }
  return id;
}

}  // namespace loci::server
