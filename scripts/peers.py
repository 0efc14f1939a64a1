"""What the comparison scripts share: models by alias, the peer llama.cpp, statistics, a chart.

llama.cpp comes from the source package llama-cpp-python and is built for this CPU, once, under ~/.cache/loci/peers.
"""

import contextlib
import glob
import html
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
LOCI = os.path.join(ROOT, "build", "release", "main", "loci")
PACKAGE = "llama-cpp-python==0.3.36"
TARGETS = ("llama-bench", "llama-batched-bench", "llama-server")
# As its own instructions say for a CPU; without the web page, examples, tests.
CMAKE_FLAGS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DGGML_CCACHE=OFF",
    "-DBUILD_SHARED_LIBS=OFF",
    "-DLLAMA_BUILD_UI=OFF",
    "-DLLAMA_USE_PREBUILT_UI=OFF",
    "-DLLAMA_BUILD_TESTS=OFF",
    "-DLLAMA_BUILD_EXAMPLES=OFF",
    "-DLLAMA_OPENSSL=OFF",
)


# g++ 12 tells its optimizer of 8 of the 64 bytes that _tile_loadconfig reads: the rest is never stored, and llama.cpp
# ends with an illegal instruction at its first tile.
AMX_HEADER = """#include <immintrin.h>
#undef _tile_loadconfig
#define _tile_loadconfig(config) asm volatile("ldtilecfg %0" : : "m"(*(const char(*)[64])(config)))
"""


def cache_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "loci")


def say(text):
    print(text, file=sys.stderr, flush=True)


def run(command, **options):
    """Its output; ends the program with the end of that output when it fails."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )
    if result.returncode != 0:
        sys.exit(f"error: exit code {result.returncode}: {' '.join(command)}\n{result.stdout[-3000:]}")
    return result.stdout


def llama_program(name):
    """Path of llama-bench, llama-batched-bench or llama-server; builds all three at the first call (minutes)."""
    folder = os.path.join(cache_folder(), "peers", PACKAGE.replace("==", "-"))
    program = os.path.join(folder, "build", "bin", name)
    if os.path.exists(program):
        return program
    say(f"building {PACKAGE} for this CPU in {folder} (some minutes)")
    source = os.path.join(folder, "source")
    if not os.path.exists(os.path.join(source, "CMakeLists.txt")):
        download(source)
    build = os.path.join(folder, "build")
    nice = ["nice", "-n", "15"]
    run([*nice, "cmake", "-S", source, "-B", build, "-G", "Ninja", *CMAKE_FLAGS, *amx_flags(folder)])
    run([*nice, "cmake", "--build", build, "-j", str(os.cpu_count() or 1), "--target", *TARGETS])
    return program


def amx_flags(folder):
    """CMake flags that let g++ 12 compile llama.cpp's AMX code; none where the CPU has no AMX."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        if "amx_tile" not in file.read():
            return []
    header = os.path.join(folder, "amx_tile_loadconfig.h")
    with open(header, "w", encoding="ascii") as file:
        file.write(AMX_HEADER)
    return [f"-DCMAKE_CXX_FLAGS=-include {header}"]


def download(target):
    """The llama.cpp inside the source package, as folder `target`."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(target)) as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        run([*pip, "--no-binary", PACKAGE.split("==")[0], "-d", folder, PACKAGE])
        (archive,) = glob.glob(os.path.join(folder, "*.tar.gz"))
        run(["tar", "-xzf", archive, "-C", folder, "--wildcards", "*/vendor/llama.cpp/*"])
        (tree,) = glob.glob(os.path.join(folder, "*", "vendor", "llama.cpp"))
        shutil.rmtree(target, ignore_errors=True)
        os.replace(tree, target)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as source:
        names = [line.split(":", 1)[1].strip() for line in source if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {len(names)} logical processors"


def model_path(name):
    """A file as it is, a synthetic model (make_synthetic_model.py) or a fetched one by alias."""
    synthetic = os.path.join(cache_folder(), "synthetic", f"{name}.gguf")
    for path in (name, synthetic):
        if os.path.exists(path):
            return path
    if name.startswith("synthetic-"):
        sys.exit(f"error: {synthetic} is missing: run scripts/make_synthetic_model.py")
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import fetch_model

    path = os.path.join(fetch_model.default_folder(), fetch_model.choose([name])[0].file)
    if not os.path.exists(path):
        sys.exit(f"error: {path} is missing: run scripts/fetch_model.sh {name}")
    return path


def check_loci(path):
    if not os.access(path, os.X_OK):
        sys.exit(f"error: {path} is missing: run ./scripts/run first, or give --loci")


def turned(items, n):
    """Rotated by n: in turns no program always comes first."""
    n %= len(items)
    return items[n:] + items[:n]


def spread(values, digits=None):
    """"median (least–most)"."""
    if digits is None:
        median = statistics.median(values)
        digits = 0 if median >= 1000 else 1 if median >= 10 else 2
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def write_json(path, head, results):
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with open(path, "w", encoding="utf-8") as out:
        json.dump({"machine": machine(), "peer": PACKAGE, "time": stamp, **head, "results": results}, out, indent=1)
        out.write("\n")


def bar_chart(path, title, rows):
    """SVG of horizontal bars. rows: [(label, {program: (median, least, most)})]; bars are relative to the first
    program's median, whiskers show the spread, the figures stand beside them."""
    colours = ("#2b6cb0", "#dd6b20", "#718096", "#805ad5", "#38a169")
    programs = list(rows[0][1])
    left, width, bar, gap = 330, 420, 14, 12
    largest = max(most / bars[programs[0]][0] for _, bars in rows for _, _, most in bars.values())
    unit = width / largest
    y, parts = 44 + 18 * len(programs), []
    for index, program in enumerate(programs):
        top = 34 + 18 * index
        parts.append(f'<rect x="{left}" y="{top}" width="12" height="12" fill="{colours[index % len(colours)]}"/>')
        parts.append(f'<text x="{left + 18}" y="{top + 11}">{html.escape(program)}</text>')
    for label, bars in rows:
        middle = y + bar * len(bars) / 2 + 4
        parts.append(f'<text x="{left - 8}" y="{middle:.0f}" text-anchor="end">{html.escape(label)}</text>')
        base = bars[programs[0]][0]
        for program, (median, least, most) in bars.items():
            colour = colours[programs.index(program) % len(colours)]
            length, low, high = (unit * value / base for value in (median, least, most))
            line = y + bar / 2
            parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" fill="{colour}"/>')
            parts.append(f'<path d="M{left + low:.1f} {line - 1}H{left + high:.1f}" stroke="#1a202c"/>')
            parts.append(f'<text x="{left + max(length, high) + 6:.1f}" y="{y + 10}">{median:.4g}</text>')
            y += bar
        y += gap
    size = f'width="{left + width + 90}" height="{y}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">'
    text = [head, '<rect width="100%" height="100%" fill="white"/>']
    text.append(f'<text x="8" y="20" font-size="14">{html.escape(title)}</text>')
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join([*text, *parts, "</svg>", ""]))


@contextlib.contextmanager
def ending(process):
    """Ends a child process whatever happens."""
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
