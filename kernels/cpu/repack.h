// Repacking: rows of a GGUF tensor into 16-row panels (panel_format.h).
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/panel_format.h"

namespace loci::cpu {

// Writes one panel.
//   rows      [n_rows] addresses of the file's rows, n_rows <= 16
//   k         elements per row, a multiple of the type's block
//   panel     panel_bytes(type, k); lanes n_rows .. 15 are left as they are (zero in fresh memory)
void repack_panel(PanelType type, const uint8_t* const* rows, int n_rows, int64_t k, uint8_t* panel);

}  // namespace loci::cpu
