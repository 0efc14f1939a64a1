#!/usr/bin/env python3
"""Writes a llama-shaped model with random weights, for measuring speed at sizes that no fetched model has.

The same arguments give the same bytes. The tokenizer is copied from another model; memory stays below a few hundred
MB whatever the size. Loads in loci and in llama.cpp; what it says is noise.

  scripts/make_synthetic_model.py                           3b in Q4_K_M and Q8_0 under ~/.cache/loci/synthetic
  scripts/make_synthetic_model.py --shape 1b --type q8_0
  scripts/make_synthetic_model.py --shape tiny --type q4_k_m -o /tmp/tiny.gguf
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass

VENV = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "loci", "venv")
try:
    import gguf
    import numpy as np
except ImportError:
    python = os.path.join(VENV, "bin", "python3")
    if sys.prefix == VENV or not os.path.exists(python):
        sys.exit("error: numpy and gguf are needed: run scripts/setup.sh --test")
    os.execv(python, [python, *sys.argv])

CHUNK_BYTES = 1 << 24


@dataclass(frozen=True)
class Shape:
    n_layers: int
    dim: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_dim: int
    n_ctx: int = 32768


SHAPES = {
    "3b": Shape(28, 3072, 24, 8, 128, 8192),
    "1b": Shape(16, 2048, 32, 8, 64, 8192),
    "tiny": Shape(2, 256, 4, 2, 64, 768),
}
TYPES = ("q4_k_m", "q8_0")


def blocks_q8_0(rng, n_blocks, deviation):
    """q8_0: f16 scale, 32 signed bytes."""
    out = np.empty((n_blocks, 34), np.uint8)
    out[:, :2] = np.full((n_blocks, 1), deviation / 73, np.float16).view(np.uint8)
    codes = rng.integers(-127, 128, (n_blocks, 32), np.int8)
    out[:, 2:] = codes.view(np.uint8)
    return out


def blocks_q4_k(rng, n_blocks, deviation):
    """q4_K: f16 d and dmin, eight 6-bit scales and minimums in 12 bytes, 256 codes of 4 bits.

    The minimum of a group is 7.5 of its steps, so that weights are spread around zero.
    """
    out = np.empty((n_blocks, 144), np.uint8)
    scales = rng.integers(16, 64, (n_blocks, 8), np.uint8)
    step = deviation / (42 * 4.6)
    out[:, 0:2] = np.full((n_blocks, 1), step, np.float16).view(np.uint8)
    out[:, 2:4] = np.full((n_blocks, 1), 7.5 * step, np.float16).view(np.uint8)
    low, high = scales[:, :4], scales[:, 4:]
    out[:, 4:8] = low | (high >> 4 << 6)
    out[:, 8:12] = low | (high >> 4 << 6)
    out[:, 12:16] = (high & 15) | (high & 15) << 4
    out[:, 16:] = rng.integers(0, 256, (n_blocks, 128), np.uint8)
    return out


def blocks_q6_k(rng, n_blocks, deviation):
    """q6_K: 256 codes of 6 bits (low nibbles, high pairs), 16 signed scales, f16 d."""
    out = np.empty((n_blocks, 210), np.uint8)
    out[:, :192] = rng.integers(0, 256, (n_blocks, 192), np.uint8)
    sign = rng.integers(0, 2, (n_blocks, 16), np.int8) * 2 - 1
    out[:, 192:208] = (sign * rng.integers(40, 121, (n_blocks, 16), np.int8)).view(np.uint8)
    out[:, 208:] = np.full((n_blocks, 1), deviation / (83 * 18.5), np.float16).view(np.uint8)
    return out


Q = gguf.GGMLQuantizationType
MAKERS = {Q.Q8_0: (blocks_q8_0, 32, 34), Q.Q4_K: (blocks_q4_k, 256, 144), Q.Q6_K: (blocks_q6_k, 256, 210)}


def more_bits(layer, n_layers):
    """The layers to which the Q4_K_M mix gives a larger type."""
    eighth = n_layers // 8
    return layer < eighth or layer >= 7 * n_layers // 8 or (layer - eighth) % 3 == 2


def tensors(shape, kind, vocab_size):
    """(name, columns, rows, type) in file order; rows None: a vector."""
    q_dim, kv_dim = shape.n_heads * shape.head_dim, shape.n_kv_heads * shape.head_dim
    plain, large = (Q.Q8_0, Q.Q8_0) if kind == "q8_0" else (Q.Q4_K, Q.Q6_K)
    yield "token_embd.weight", shape.dim, vocab_size, large
    for layer in range(shape.n_layers):
        mixed = large if more_bits(layer, shape.n_layers) else plain
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", shape.dim, None, Q.F32
        yield prefix + "attn_q.weight", shape.dim, q_dim, plain
        yield prefix + "attn_k.weight", shape.dim, kv_dim, plain
        yield prefix + "attn_v.weight", shape.dim, kv_dim, mixed
        yield prefix + "attn_output.weight", q_dim, shape.dim, plain
        yield prefix + "ffn_norm.weight", shape.dim, None, Q.F32
        yield prefix + "ffn_gate.weight", shape.dim, shape.ffn_dim, plain
        yield prefix + "ffn_up.weight", shape.dim, shape.ffn_dim, plain
        yield prefix + "ffn_down.weight", shape.ffn_dim, shape.dim, mixed
    yield "output_norm.weight", shape.dim, None, Q.F32


def n_bytes(columns, rows, kind):
    if rows is None:
        return 4 * columns
    _, block, size = MAKERS[kind]
    return columns // block * size * rows


def write_values(out, columns, rows, kind, rng):
    if rows is None:
        out.write(np.ones(columns, np.float32).tobytes())
        return
    make, block, size = MAKERS[kind]
    n_blocks = columns // block * rows
    for first in range(0, n_blocks, CHUNK_BYTES // size):
        out.write(make(rng, min(CHUNK_BYTES // size, n_blocks - first), columns**-0.5).tobytes())


def set_keys(writer, shape, name, kind, vocab_size):
    writer.add_name(name)
    writer.add_context_length(shape.n_ctx)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.n_layers)
    writer.add_feed_forward_length(shape.ffn_dim)
    writer.add_head_count(shape.n_heads)
    writer.add_head_count_kv(shape.n_kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_rope_dimension_count(shape.head_dim)
    writer.add_rope_freq_base(500000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(vocab_size)
    writer.add_quantization_version(2)
    writer.add_file_type(7 if kind == "q8_0" else 15)


def copy_tokenizer(writer, path):
    """Returns the size of the vocabulary."""
    reader = gguf.GGUFReader(path)
    vocab_size = 0
    for key, field in reader.fields.items():
        if not key.startswith("tokenizer."):
            continue
        value = field.contents()
        if key == "tokenizer.ggml.tokens":
            vocab_size = len(value)
        element = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, value, field.types[0], element)
    if vocab_size == 0:
        sys.exit(f"error: {path}: holds no tokenizer.ggml.tokens")
    return vocab_size


def make(shape_name, kind, tokenizer, seed, path):
    shape = SHAPES[shape_name]
    start = time.monotonic()
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    unfinished = f"{path}.{os.getpid()}.tmp"
    writer = gguf.GGUFWriter(unfinished, "llama")
    try:
        vocab_size = copy_tokenizer(writer, tokenizer)
        set_keys(writer, shape, f"synthetic {shape_name} {kind}", kind, vocab_size)
        listed = list(tensors(shape, kind, vocab_size))
        for name, columns, rows, type_ in listed:
            # The writer takes the shape of quantized tensors in bytes.
            if rows is None:
                writer.add_tensor_info(name, [columns], np.dtype(np.float32), 4 * columns)
            else:
                row_bytes = n_bytes(columns, 1, type_)
                writer.add_tensor_info(name, [rows, row_bytes], np.dtype(np.uint8), rows * row_bytes, type_)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        out = writer.fout[0]
        out.write(b"\0" * (-out.tell() % writer.data_alignment))
        for index, (name, columns, rows, type_) in enumerate(listed):
            write_values(out, columns, rows, type_, np.random.Generator(np.random.PCG64([seed, index])))
            out.write(b"\0" * (-n_bytes(columns, rows, type_) % writer.data_alignment))
            print(f"\r{index + 1}/{len(listed)} tensors", end="", file=sys.stderr, flush=True)
        writer.close()
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    size = os.path.getsize(path)
    print(f"\r{path}: {size / 1e9:.2f} GB in {time.monotonic() - start:.0f} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="3b")
    parser.add_argument("--type", choices=TYPES, action="append", help="may be repeated; default: both")
    parser.add_argument("--tokenizer", default="qwen2.5-coder-0.5b", help="a GGUF file, or an alias")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", "--output", help="file to write, for one type")
    args = parser.parse_args()
    kinds = args.type or list(TYPES)
    if args.output and len(kinds) != 1:
        parser.error("-o takes one --type")
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import peers

    tokenizer = peers.model_path(args.tokenizer)
    for kind in kinds:
        default = os.path.join(peers.cache_folder(), "synthetic", f"synthetic-{args.shape}-{kind}.gguf")
        make(args.shape, kind, tokenizer, args.seed, args.output or default)


if __name__ == "__main__":
    main()
