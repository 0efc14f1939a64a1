// Repacking: rows of a GGUF tensor into 16-row panels (panel_format.h), and single rows back.
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

// The same for n_rows = 16, several times faster. False, with nothing written, for types that it does not know.
bool repack_full_panel(PanelType type, const uint8_t* const* rows, int64_t k, uint8_t* panel);

// The way back, byte for byte: elements [first, first + n) of the row in lane `lane`, as the file's blocks.
//   first, n  multiples of the type's block
void restore_row(PanelType type, const uint8_t* panel, int lane, int64_t first, int64_t n, uint8_t* blocks);

}  // namespace loci::cpu
