#!/usr/bin/env python3
"""Compares our block formats with the PyPI package gguf: check_quants.py path/to/quant_tool

Dequantization of random blocks must be equal bit for bit, for every type that the package can dequantize and we can
too. Quantization must be no worse (RMSE over the row) than the package's, where it has a quantizer.
Runs itself in the project's venv (scripts/test makes it) where there is one. Exit code 77 (skipped) when gguf or numpy
are not installed.
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

VENV = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loci/venv/bin/python3"
if VENV.exists() and Path(sys.prefix) != VENV.parent.parent:
    os.execv(VENV, [str(VENV), *sys.argv])

try:
    import gguf
    import numpy as np
    from gguf import quants
except ImportError as error:
    print(f"skipped: {error}; pip install gguf numpy")
    sys.exit(77)

N_BLOCKS = 400
# The package gives Q8_1 two f32 fields, files of old had f16; it is an activation format and in no model.
NOT_COMPARED = {"Q8_1"}
# Codebook types: the package decodes them, we know their sizes alone (docs/gguf.md).
CODEBOOK = {"IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S", "IQ1_M"}


class Tool:
    def __init__(self, path, folder):
        self.path, self.folder = path, Path(folder)

    def types(self):
        out = subprocess.run([self.path, "list"], check=True, capture_output=True, text=True).stdout
        for line in out.splitlines():
            number, name, elements, size, dequantize, quantize = line.split()
            yield int(number), name, int(elements), int(size), dequantize == "1", quantize == "1"

    def convert(self, action, name, data):
        source, target = self.folder / "in", self.folder / "out"
        source.write_bytes(data.tobytes())
        subprocess.run([self.path, action, name, str(source), str(target)], check=True)
        return np.frombuffer(target.read_bytes(), dtype=np.float32 if action == "dequantize" else np.uint8)


def same_bits(ours, theirs):
    both_nan = np.isnan(ours) & np.isnan(theirs)
    return bool(np.all((ours.view(np.uint32) == theirs.view(np.uint32)) | both_nan))


def rows_to_quantize(rng):
    """Rows like weights, and rows that are not."""
    yield "normal", rng.standard_normal((64, 1024)) * 0.05
    yield "heavy tails", rng.standard_t(3, (64, 1024)) * 0.02
    yield "one-sided", np.abs(rng.standard_normal((32, 1024)))
    yield "uniform", rng.uniform(-1, 1, (32, 1024))
    yield "sparse", rng.standard_normal((32, 1024)) * (rng.random((32, 1024)) < 0.05)
    yield "tiny", rng.standard_normal((16, 1024)) * 1e-6
    yield "large", rng.standard_normal((16, 1024)) * 1e3
    yield "ternary", rng.integers(-1, 2, (16, 1024)) * 0.03
    yield "zero", np.zeros((4, 1024))


def check_half(tool, failures):
    """f16 both ways against numpy: every pattern, and random bit patterns of f32."""
    patterns = np.arange(65536, dtype=np.uint16)
    if not same_bits(tool.convert("dequantize", "F16", patterns), patterns.view(np.float16).astype(np.float32)):
        failures.append("F16: to f32 differs from numpy")
    values = np.random.default_rng(2).integers(0, 1 << 32, 1 << 20, dtype=np.uint32).view(np.float32)
    values = values[~np.isnan(values)]
    values = np.concatenate([values, (np.arange(1 << 16) * 2.0**-28).astype(np.float32)])
    with np.errstate(over="ignore"):
        theirs = values.astype(np.float16).view(np.uint16)
    if not np.array_equal(tool.convert("quantize", "F16", values).view(np.uint16), theirs):
        failures.append("F16: from f32 differs from numpy")
    print("F16      both directions compared")


def has_quantizer(name):
    try:
        quants.quantize(np.zeros((1, 1024), dtype=np.float32), getattr(gguf.GGMLQuantizationType, name))
        return True
    except (NotImplementedError, AttributeError):
        return False


def main():
    rng = np.random.default_rng(1)
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        tool = Tool(sys.argv[1], folder)
        check_half(tool, failures)
        for number, name, elements, size, dequantize, quantize in tool.types():
            kind = getattr(gguf.GGMLQuantizationType, name, None)
            if kind is None or name in NOT_COMPARED:
                print(f"{name:8} not in this version of the package" if kind is None else f"{name:8} not compared")
                continue
            if kind != number or gguf.GGML_QUANT_SIZES[kind] != (elements, size):
                failures.append(f"{name}: id or block shape differs")
                continue
            if kind in quants._type_traits:
                if not dequantize:
                    if name not in CODEBOOK:
                        failures.append(f"{name}: the package can dequantize it, we cannot")
                    print(f"{name:8} size alone")
                    continue
                blocks = rng.integers(0, 256, (N_BLOCKS, size), dtype=np.uint8)
                ours = tool.convert("dequantize", name, blocks)
                with np.errstate(all="ignore"):
                    theirs = quants.dequantize(blocks, kind).astype(np.float32).reshape(-1)
                if not same_bits(ours, theirs):
                    failures.append(f"{name}: {np.count_nonzero(ours != theirs)} of {ours.size} values differ")
                print(f"{name:8} dequantization of {N_BLOCKS} random blocks compared")
            if quantize and name not in ("F32", "F16") and has_quantizer(name):
                for what, rows in rows_to_quantize(rng):
                    rows = rows.astype(np.float32)
                    packed = tool.convert("quantize", name, rows)
                    ours = tool.convert("dequantize", name, packed).reshape(rows.shape)
                    theirs = quants.dequantize(quants.quantize(rows, kind), kind)
                    rmse = [float(np.sqrt(np.mean((v.astype(np.float64) - rows) ** 2))) for v in (ours, theirs)]
                    print(f"{name:8} {what:12} RMSE {rmse[0]:.6g}, the package's {rmse[1]:.6g}")
                    if not rmse[0] <= rmse[1]:
                        failures.append(f"{name}: {what}: RMSE {rmse[0]} above the package's {rmse[1]}")
    for failure in failures:
        print("FAILED", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
