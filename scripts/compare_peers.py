#!/usr/bin/env python3
"""Speed of loci beside llama.cpp on the same files, interleaved in one run.

llama.cpp comes from the source package llama-cpp-python, built once for this CPU. Each repetition runs loci and each
peer one after the other, so that all see the same minutes of the machine; the table holds medians and ratios.

  scripts/compare_peers.py                                   the models of the default list, 2 and 1 threads
  scripts/compare_peers.py -m smollm2 -t 2 -r 9 -o out.json
  scripts/compare_peers.py --peer-bench ik=/path/to/llama-bench   another program that speaks llama-bench's JSON
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PACKAGE = "llama-cpp-python==0.3.36"
DEFAULT_MODELS = ("smollm2", "qwen2.5-coder-0.5b")


def cache_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "loci")


def say(text):
    print(text, file=sys.stderr, flush=True)


def peer_python():
    """The Python that has the peer; builds it at the first call (minutes)."""
    folder = os.path.join(cache_folder(), "peers", PACKAGE.replace("==", "-"))
    python = os.path.join(folder, "bin", "python3")
    probe = [python, "-c", "import llama_cpp"]
    if os.path.exists(python) and subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        return python
    say(f"building {PACKAGE} for this CPU in {folder} (some minutes)")
    environment = dict(os.environ, CMAKE_ARGS="-DGGML_NATIVE=ON", CMAKE_BUILD_PARALLEL_LEVEL=str(os.cpu_count() or 1))
    commands = (
        [sys.executable, "-m", "venv", "--clear", folder],
        ["nice", "-n", "15", python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        + ["--no-cache-dir", "--no-binary", "llama-cpp-python", PACKAGE],
    )
    for command in commands:
        result = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if result.returncode != 0:
            sys.exit("error: " + " ".join(command) + "\n" + result.stdout[-3000:])
    return python


def run_json(command):
    """Runs a llama-bench-like program; returns {test name: nanoseconds of its one repetition}."""
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"error: exit code {result.returncode}: {' '.join(command)}\n{result.stderr[-2000:]}")
    rows = json.loads(result.stdout)
    return {test_name(row): row["samples_ns"][0] for row in rows}


def test_name(row):
    name = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
    return name + (f" @ d{row['n_depth']}" if row.get("n_depth") else "")


def n_tokens(test):
    return int(test.split(" ", 1)[0][2:])


def measure(programs, model, threads, args):
    """{program: {test: [tokens per second, one per repetition]}}, interleaved."""
    rates = {name: {} for name, _ in programs}
    shape = ["-m", model, "-p", args.prompt, "-n", args.gen, "-d", args.depth, "-t", str(threads), "-r", "1"]
    for repetition in range(args.repetitions):
        # The order turns from one repetition to the next: no program always comes first.
        turned = programs[repetition % len(programs) :] + programs[: repetition % len(programs)]
        for name, command in turned:
            for test, nanoseconds in run_json([*command, *shape, "-o", "json"]).items():
                rates[name].setdefault(test, []).append(1e9 * n_tokens(test) / nanoseconds)
        say(f"{os.path.basename(model)}, {threads} threads: repetition {repetition + 1} of {args.repetitions}")
    return rates


def cell(values):
    digits = 0 if statistics.median(values) >= 1000 else 1
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def table(results, peers):
    lines = [
        "| model | threads | test | loci t/s | " + " | ".join(f"{p} t/s | loci / {p}" for p in peers) + " |",
        "|---|--:|---|--:|" + "--:|--:|" * len(peers),
    ]
    for result in results:
        for test, ours in result["rates"]["loci"].items():
            row = [result["model"], str(result["threads"]), test, cell(ours)]
            for peer in peers:
                theirs = result["rates"][peer][test]
                row += [cell(theirs), f"{statistics.median(ours) / statistics.median(theirs):.2f}"]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as source:
        names = [line.split(":", 1)[1].strip() for line in source if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {len(names)} logical processors"


def model_path(name):
    if os.path.exists(name):
        return name
    sys.path.insert(0, os.path.join(ROOT, "scripts"))
    import fetch_model

    path = os.path.join(fetch_model.default_folder(), fetch_model.choose([name])[0].file)
    if not os.path.exists(path):
        sys.exit(f"error: {path} is missing: run scripts/fetch_model.sh {name}")
    return path


def compare(args):
    programs = [("loci", [args.loci, "bench"])]
    if not args.no_llama:
        programs.append(("llama.cpp", [peer_python(), os.path.abspath(__file__), "--as-peer"]))
    for text in args.peer_bench:
        name, _, path = text.rpartition("=")
        programs.append((name or os.path.basename(path), [path]))
    peers = [name for name, _ in programs[1:]]
    if not os.access(args.loci, os.X_OK):
        sys.exit(f"error: {args.loci} is missing: run ./scripts/run first, or give --loci")
    results = []
    for name in args.model or DEFAULT_MODELS:
        path = model_path(name)
        for threads in args.threads.split(","):
            rates = measure(programs, path, int(threads), args)
            results.append({"model": os.path.basename(path), "threads": int(threads), "rates": rates})
    text = table(results, peers)
    print(f"{machine()}; medians of {args.repetitions} (min–max), interleaved; peer: {PACKAGE}\n\n{text}")
    if args.output:
        with open(args.output, "w", encoding="utf-8") as out:
            head = {"machine": machine(), "peer": PACKAGE, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            json.dump({**head, "results": results}, out, indent=1)
            out.write("\n")


def as_peer(argv):
    """Runs inside the peer's Python: measures llama.cpp as llama-bench does, prints its JSON keys."""
    import ctypes

    import llama_cpp

    parser = argparse.ArgumentParser()
    parser.add_argument("-m", dest="model", required=True)
    for flag, name in (("-p", "prompt"), ("-n", "gen"), ("-d", "depth")):
        parser.add_argument(flag, dest=name, default="0")
    parser.add_argument("-t", dest="threads", type=int, default=1)
    parser.add_argument("-r", dest="repetitions", type=int, default=5)
    parser.add_argument("-o", dest="output", default="json")
    args = parser.parse_args(argv)
    prompts, gens, depths = ([int(n) for n in text.split(",")] for text in (args.prompt, args.gen, args.depth))
    silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    parameters = llama_cpp.llama_model_default_params()
    parameters.n_gpu_layers = 0
    model = llama_cpp.llama_model_load_from_file(args.model.encode(), parameters)
    if not model:
        sys.exit(f"error: {args.model}: llama.cpp could not load it")
    vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def context_for(n_ctx):
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_batch, settings.n_ubatch = n_ctx, 2048, 512
        settings.n_threads = settings.n_threads_batch = args.threads
        settings.no_perf = True
        return llama_cpp.llama_init_from_model(model, settings)

    def decode(context, tokens, n_batch=2048):
        for begin in range(0, len(tokens), n_batch):
            part = tokens[begin : begin + n_batch]
            array = (llama_cpp.llama_token * len(part))(*part)
            if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(part))) != 0:
                sys.exit("error: llama_decode failed")
        llama_cpp.llama_synchronize(context)

    def token(i):
        return (i * 2654435761 + 12345) % vocab_size

    rows = []
    for depth in depths:
        for n_prompt, n_gen in [(n, 0) for n in prompts if n] + [(0, n) for n in gens if n]:
            context = context_for(depth + n_prompt + n_gen)
            memory = llama_cpp.llama_get_memory(context)

            def fill():
                llama_cpp.llama_memory_clear(memory, False)
                if depth:
                    decode(context, [token(i) for i in range(depth)])

            samples = []
            for repetition in range(args.repetitions + 1):  # the first one warms up
                fill()
                start = time.perf_counter_ns()
                if n_prompt:
                    decode(context, [token(depth + i) for i in range(n_prompt)])
                for i in range(n_gen if repetition else min(n_gen, 1)):
                    decode(context, [token(depth + i)])
                if repetition:
                    samples.append(time.perf_counter_ns() - start)
            llama_cpp.llama_free(context)
            rows.append({"n_prompt": n_prompt, "n_gen": n_gen, "n_depth": depth, "samples_ns": samples})
    print(json.dumps(rows))


def main():
    if sys.argv[1:2] == ["--as-peer"]:
        as_peer(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append", help="a file or an alias; may be repeated")
    parser.add_argument("-t", "--threads", default="2,1")
    parser.add_argument("-p", "--prompt", default="512", help="prompt tokens, a list")
    parser.add_argument("-n", "--gen", default="64", help="generated tokens, a list")
    parser.add_argument("-d", "--depth", default="0", help="tokens in the cache before, a list")
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-o", "--output", help="write all samples to this JSON file")
    parser.add_argument("--loci", default=os.path.join(ROOT, "build", "release", "main", "loci"))
    parser.add_argument("--no-llama", action="store_true", help="without llama.cpp")
    parser.add_argument("--peer-bench", action="append", default=[], metavar="[NAME=]PATH")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
