#!/usr/bin/env python3
"""Speed of loci beside llama.cpp on the same files, interleaved in one run.

llama.cpp comes from the source package llama-cpp-python, built once for this CPU. Each repetition runs loci and each
peer one after the other, so that all see the same minutes of the machine; the table holds medians, ratios, and how
far loci is from what the machine can do.

  scripts/compare_peers.py                                   the models of the default list, 2 and 1 threads
  scripts/compare_peers.py -m smollm2 -t 2 -r 9 -o out.json --plot out.svg
  scripts/compare_peers.py -m qwen2.5-coder-0.5b -p 0 -n 32 -d 0,8192 -ctk q8_0 -ctv q8_0
  scripts/compare_peers.py --batched -p 128 -n 32 -B 1,8,16  several sequences at once
  scripts/compare_peers.py --startup                         from the start of the program to a first token
  scripts/compare_peers.py --memory -p 30 -n 12 -c 512       peak of resident memory, beside file + K/V cache
  scripts/compare_peers.py --peer-bench ik=/path/to/llama-bench   another program that speaks llama-bench's JSON
"""

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers

DEFAULT_MODELS = ("smollm2", "qwen2.5-coder-0.5b")


def output_of(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"error: exit code {result.returncode}: {' '.join(command)}\n{result.stderr[-2000:]}")
    return result.stdout


class PlainBench:
    """llama-bench and what speaks like it: one sequence."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        # ik_llama.cpp has no -d; its -gp measures generation after a prompt.
        self.has_depth = name == "loci" or "--n-depth" in subprocess.run(
            [*command, "--help"], capture_output=True, text=True, check=False
        ).stdout

    def measure(self, model, threads, args):
        """{test: (tokens per second, the row)}."""
        shape = ["-m", model, "-p", args.prompt, "-n", args.gen, "-t", str(threads), "-r", "1", "-o", "json"]
        shape += ["-ctk", args.cache_type_k, "-ctv", args.cache_type_v]
        depths = args.depth.split(",")
        if self.has_depth:
            shape += ["-d", args.depth]
        else:
            shape[3:6] = [args.prompt if "0" in depths else "0", "-n", args.gen if "0" in depths else "0"]
            for depth in depths:
                for gen in args.gen.split(","):
                    shape += ["-gp", f"{depth},{gen}"] if int(depth) and int(gen) else []
        found = {}
        for row in json.loads(output_of([*self.command, *shape])):
            name, n_tokens = self.test(row)
            found[name] = (1e9 * n_tokens / row["samples_ns"][0], row)
        return found

    @staticmethod
    def test(row):
        n_prompt, n_gen, depth = row["n_prompt"], row["n_gen"], row.get("n_depth", 0)
        if n_prompt and n_gen:
            n_prompt, depth = 0, n_prompt
        name = f"pp{n_prompt}" if n_prompt else f"tg{n_gen}"
        return name + (f" @ d{depth}" if depth else ""), n_prompt or n_gen


class BatchedBench:
    """llama-batched-bench and what speaks like it: several sequences at once."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def measure(self, model, threads, args):
        lists = [[int(n) for n in text.split(",")] for text in (args.prompt, args.gen, args.batch)]
        # Room for the largest, and for whole pages.
        n_ctx = max(lists[2]) * (max(lists[0]) + max(lists[1]) + 64)
        shape = ["-m", model, "-npp", args.prompt, "-ntg", args.gen, "-npl", args.batch, "-c", str(n_ctx)]
        shape += ["-t", str(threads), "--output-format", "jsonl", "-ctk", args.cache_type_k, "-ctv", args.cache_type_v]
        shape += ["-pps"] if args.shared_prompt else []
        found = {}
        for line in output_of([*self.command, *shape]).splitlines():
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            shape_name = f"B={row['pl']} after {row['pp']}" + (" shared" if args.shared_prompt else "")
            found[f"pp{row['pp']} B={row['pl']}"] = (row["speed_pp"], {"mac_share": row.get("pp_mac_share")})
            shares = {"read_share": row.get("tg_read_share"), "mac_share": row.get("tg_mac_share")}
            found[f"tg{row['tg']} {shape_name}"] = (row["speed_tg"], shares)
        return found


def run_once(command):
    """Seconds from its start to its end, its peak of resident memory in MiB, its output."""
    start = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"error: exit code {process.returncode}: {' '.join(command)}")
    return time.monotonic() - start, usage.ru_maxrss / 1024, output


class StartupBench:
    """A fresh process that loads the model, evaluates a short prompt and ends."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def measure(self, model, threads, _args):
        found = {}
        for n_tokens in (1, 32):
            command = [*self.command, "-m", model, "-p", str(n_tokens), "-n", "0", "-r", "1", "--no-warmup"]
            command += ["-t", str(threads), *(["--no-roofline"] if self.name == "loci" else [])]
            found[f"start to end of a prompt of {n_tokens}, ms"] = (1e3 * run_once(command)[0], {})
        return found


class MemoryBench:
    """A fresh process that loads the model with a context, evaluates a prompt and generates some tokens."""

    def __init__(self, name, command):
        self.name, self.command = name, command

    def measure(self, model, threads, args):
        types = ["-ctk", args.cache_type_k, "-ctv", args.cache_type_v]
        context = ["-c", str(args.context), *types]
        inspected = json.loads(output_of([args.loci, "inspect", "-m", model, *context, "--json"]))
        wanted = (os.path.getsize(model) + inspected["memory"]["kv_bytes"]) / 2**20
        found = {}
        for n_prompt in args.prompt.split(","):
            shape = ["-npp", n_prompt, "-ntg", args.gen.split(",")[0], "-npl", "1", "-t", str(threads)]
            shape += ["--no-roofline"] if self.name == "loci" else []
            _, peak, output = run_once([*self.command, "-m", model, *context, *shape, "--output-format", "jsonl"])
            if not any(line.startswith("{") for line in output.splitlines()):
                sys.exit(f"error: {self.name} evaluated nothing: {n_prompt} tokens and what follows need more than -c")
            test = f"{n_prompt} + {args.gen.split(',')[0]} tokens"
            found[f"peak, {test}, MiB"] = (peak, {})
            found[f"peak / (file + K/V), {test}"] = (peak / wanted, {})
        return found


def measure(programs, model, threads, args):
    """{"rates": {program: {test: [tokens per second, one per repetition]}}, "shares": {test: {name: [...]}}}."""
    rates = {program.name: {} for program in programs}
    shares = {}
    for repetition in range(args.repetitions):
        for program in peers.turned(programs, repetition):
            for test, (rate, row) in program.measure(model, threads, args).items():
                rates[program.name].setdefault(test, []).append(rate)
                if program.name != "loci":
                    continue
                for key in ("read_share", "mac_share"):
                    if row.get(key):
                        shares.setdefault(test, {}).setdefault(key, []).append(row[key])
        peers.say(f"{os.path.basename(model)}, {threads} threads: repetition {repetition + 1} of {args.repetitions}")
    return {"rates": rates, "shares": shares}


def table(results, names):
    head = ["model", "threads", "test", "loci", "of read", "of peak"]
    for peer in names:
        head += [peer, f"loci / {peer}"]
    lines = ["| " + " | ".join(head) + " |", "|---|--:|---|--:|--:|--:|" + "--:|--:|" * len(names)]
    for result in results:
        for test, ours in result["rates"]["loci"].items():
            row = [result["model"], str(result["threads"]), test, peers.spread(ours)]
            for key in ("read_share", "mac_share"):
                share = result["shares"].get(test, {}).get(key)
                row.append(f"{100 * statistics.median(share):.0f} %" if share else "")
            for peer in names:
                theirs = result["rates"][peer].get(test)
                ratio = f"{statistics.median(ours) / statistics.median(theirs):.2f}" if theirs else "–"
                row += [peers.spread(theirs) if theirs else "–", ratio]
            lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def plot(path, results):
    rows = []
    for result in results:
        for test in result["rates"]["loci"]:
            bars = {}
            for program, tests in result["rates"].items():
                if test in tests:
                    bars[program] = (statistics.median(tests[test]), min(tests[test]), max(tests[test]))
            rows.append((f"{result['model'].removesuffix('.gguf')}, {result['threads']} t, {test}", bars))
    peers.bar_chart(path, "tokens per second, relative to loci; lines: least to most", rows)


def compare(args):
    bench = PlainBench
    for chosen, kind in ((args.batched, BatchedBench), (args.startup, StartupBench), (args.memory, MemoryBench)):
        bench = kind if chosen else bench
    batched = args.batched or args.memory
    programs = [bench("loci", [args.loci, "batched-bench" if batched else "bench"])]
    if not args.no_llama:
        name = "llama-batched-bench" if batched else "llama-bench"
        programs.append(bench("llama.cpp", [peers.llama_program(name)]))
    for text in args.peer_bench:
        name, _, command = text.rpartition("=") if "=" in text.split()[0] else ("", "", text)
        command = shlex.split(command)
        programs.append(bench(name or os.path.basename(command[0]), command))
    peers.check_loci(args.loci)
    results = []
    for name in args.model or DEFAULT_MODELS:
        path = peers.model_path(name)
        for threads in args.threads.split(","):
            found = measure(programs, path, int(threads), args)
            results.append({"model": os.path.basename(path), "threads": int(threads), **found})
    source = "" if args.no_llama else f"; llama.cpp: {peers.PACKAGE}"
    print(
        f"{peers.machine()}; medians of {args.repetitions} (min–max), interleaved; tokens per second unless said; K/V "
        f"{args.cache_type_k}/{args.cache_type_v}{source}\n\n{table(results, [p.name for p in programs[1:]])}"
    )
    if args.output:
        settings = {key: value for key, value in vars(args).items() if key not in ("output", "plot")}
        peers.write_json(args.output, {"settings": settings}, results)
    if args.plot:
        plot(args.plot, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append", help="a file or an alias; may be repeated")
    parser.add_argument("-t", "--threads", default="2,1")
    parser.add_argument("-p", "--prompt", default="512", help="prompt tokens, a list")
    parser.add_argument("-n", "--gen", default="64", help="generated tokens, a list")
    parser.add_argument("-d", "--depth", default="0", help="tokens in the cache before, a list")
    parser.add_argument("-ctk", "--cache-type-k", default="f16")
    parser.add_argument("-ctv", "--cache-type-v", default="f16")
    parser.add_argument("--batched", action="store_true", help="several sequences at once: -p and -n are each one's")
    parser.add_argument("-B", "--batch", default="1,2,4,8,16", help="with --batched: sequences at once, a list")
    parser.add_argument("--shared-prompt", action="store_true", help="with --batched: one prompt for all")
    parser.add_argument("--startup", action="store_true", help="time of a whole run; less is better")
    parser.add_argument("--memory", action="store_true", help="peak of resident memory of a whole run; less is better")
    parser.add_argument("-c", "--context", type=int, default=512, help="with --memory: size of the K/V cache in tokens")
    parser.add_argument("-r", "--repetitions", type=int, default=5)
    parser.add_argument("-o", "--output", help="write all samples to this JSON file")
    parser.add_argument("--plot", help="write a chart to this SVG file")
    parser.add_argument("--loci", default=peers.LOCI)
    parser.add_argument("--no-llama", action="store_true", help="without llama.cpp")
    parser.add_argument(
        "--peer-bench",
        action="append",
        default=[],
        metavar="[NAME=]COMMAND",
        help="another llama-bench (with --batched or --memory: llama-batched-bench), with flags of its own if need be",
    )
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
