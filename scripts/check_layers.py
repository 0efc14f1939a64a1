#!/usr/bin/env python3
"""Checks the layer rules of docs/architecture.md by reading #include lines and a few forbidden calls.

Prints one line per violation (file:line: what) and exits 1 when there is any.
"""

import os
import re
import sys

LAYERS = ("kernels", "gguf", "engine", "server", "main")  # each may include itself and what stands before it
SOURCE_ENDINGS = (".h", ".cc", ".inl", ".cu", ".cuh")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')

# What stands in `folder` may include these of a lower layer only; None: all of it.
#   (folder, target folder, allowed pattern)
NARROWED = (
    # The engine sees the device through Backend and the plain types and formats beside it.
    ("engine", "kernels", re.compile(r"^kernels/(?!cpu/|cuda/)")),
    ("gguf", "kernels", re.compile(r"^kernels/(?!cpu/|cuda/|attention/|backend\.h)")),
    # The server never touches a tensor.
    ("server", "kernels", re.compile(r"^kernels/(error|check|log)\.h$")),
    ("server", "gguf", re.compile(r"^gguf/metadata\.h$")),
    ("kernels/cpu", "kernels", re.compile(r"^kernels/(?!cuda/)")),
    ("kernels/cuda", "kernels", re.compile(r"^kernels/(?!cpu/)")),
)
# Only these files build a concrete backend.
BACKEND_BUILDERS = {"engine/engine.cc"}

# Third-party headers stay at their edge: (header pattern, where it may be included).
THIRD_PARTY = (
    (re.compile(r"^CLI/"), re.compile(r"^main/")),
    (re.compile(r"^readline/"), re.compile(r"^main/")),
    (re.compile(r"^httplib\.h$"), re.compile(r"^(server|tests/server)/")),
    (re.compile(r"^nlohmann/"), re.compile(r"^(main|server|tests)/")),
    (re.compile(r"^sentencepiece"), re.compile(r"^engine/text/")),
    (re.compile(r"^(xgrammar|dlpack)/"), re.compile(r"^engine/constraint/")),
    (re.compile(r"^xxhash\.h$"), re.compile(r"^(engine|gguf|main|tests)/")),
    (re.compile(r"^(gtest|gmock)/"), re.compile(r"^tests/")),
    (re.compile(r"^(cuda|cublas)\w*\.h$"), re.compile(r"^kernels/cuda/")),
)
# The environment is read by the command line, and by the choice of the instruction set.
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(")
MAY_READ_ENVIRONMENT = re.compile(r"^(main/|tests/|kernels/cpu/isa\.cc$)")


def layer_of(path):
    top = path.split("/", 1)[0]
    return top if top in LAYERS else None


def check_include(path, target, root):
    """What is wrong with `path` including the quoted `target`, or None."""
    if path.startswith("tests/"):
        if not os.path.isfile(os.path.join(root, target)):
            return f'"{target}" does not exist (paths start at the project root)'
        return None
    here, there = layer_of(path), layer_of(target)
    if target.startswith("tests/"):
        return f'"{target}": only tests may include tests'
    if there is None or not os.path.isfile(os.path.join(root, target)):
        return f'"{target}" does not exist (paths start at the project root)'
    if LAYERS.index(there) > LAYERS.index(here):
        return f'"{target}": {here}/ may not include {there}/'
    if target.endswith(".inl") and not re.search(r"(^|/)(isa_\w+\.cc|\w+\.inl)$", path):
        return f'"{target}": .inl files belong to the units compiled per ISA'
    if target in BACKEND_HEADERS and path.startswith("engine/") and path not in BACKEND_BUILDERS:
        return f'"{target}": only engine/engine.cc builds a backend'
    for folder, narrowed, allowed in NARROWED:
        if path.startswith(folder + "/") and there == narrowed and not allowed.match(target):
            if path in BACKEND_BUILDERS and target in BACKEND_HEADERS:
                continue
            return f'"{target}": {folder}/ may not include it'
    return None


BACKEND_HEADERS = {"kernels/cpu/cpu_backend.h", "kernels/cuda/cuda_backend.h"}


def check_file(path, text, root):
    """Violations in one file as (line number, message)."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match and match.group(1):
            message = check_include(path, match.group(1), root)
            if message:
                found.append((number, message))
        header = match and (match.group(2) or match.group(1))
        for pattern, allowed in THIRD_PARTY if header else ():
            if pattern.match(header) and not allowed.match(path):
                found.append((number, f"<{header}> may not be included here"))
        code = line.split("//", 1)[0]
        if GETENV.search(code) and not MAY_READ_ENVIRONMENT.match(path):
            found.append((number, "reads the environment; options come in through main/"))
    return found


def source_files(root):
    for top in (*LAYERS, "tests"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders.sort()
            for name in sorted(names):
                if name.endswith(SOURCE_ENDINGS):
                    yield os.path.relpath(os.path.join(folder, name), root)


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))
    n_files = n_found = 0
    for path in source_files(root):
        n_files += 1
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as source:
            for number, message in check_file(path, source.read(), root):
                n_found += 1
                print(f"{path}:{number}: {message}")
    if n_files == 0:
        print(f"{root}: no source files found", file=sys.stderr)
        return 1
    if n_found:
        print(f"{n_found} layer violations in {n_files} files", file=sys.stderr)
    return 1 if n_found else 0


if __name__ == "__main__":
    sys.exit(main())
