// The block-quantized types, one line each: X(NAME) stands for DType::kNAME and struct BlockNAME, whose header has
// the layout and unpack(const BlockNAME&, float* out). Plain types (F32, F16, BF16, integers) are not in the list.
#pragma once
#include "kernels/quant/iq4_nl.h"
#include "kernels/quant/iq4_xs.h"
#include "kernels/quant/mxfp4.h"
#include "kernels/quant/nvfp4.h"
#include "kernels/quant/q1_0.h"
#include "kernels/quant/q2_0.h"
#include "kernels/quant/q2_k.h"
#include "kernels/quant/q3_k.h"
#include "kernels/quant/q4_0.h"
#include "kernels/quant/q4_1.h"
#include "kernels/quant/q4_k.h"
#include "kernels/quant/q5_0.h"
#include "kernels/quant/q5_1.h"
#include "kernels/quant/q5_k.h"
#include "kernels/quant/q6_k.h"
#include "kernels/quant/q8_0.h"
#include "kernels/quant/q8_1.h"
#include "kernels/quant/q8_k.h"
#include "kernels/quant/tq1_0.h"
#include "kernels/quant/tq2_0.h"

#define LOCI_QUANT_TYPES(X) \
  X(Q4_0)                   \
  X(Q4_1)                   \
  X(Q5_0)                   \
  X(Q5_1)                   \
  X(Q8_0)                   \
  X(Q8_1)                   \
  X(Q2_K)                   \
  X(Q3_K)                   \
  X(Q4_K)                   \
  X(Q5_K)                   \
  X(Q6_K)                   \
  X(Q8_K)                   \
  X(IQ4_NL)                 \
  X(IQ4_XS)                 \
  X(TQ1_0)                  \
  X(TQ2_0)                  \
  X(MXFP4)                  \
  X(NVFP4)                  \
  X(Q1_0)                   \
  X(Q2_0)
