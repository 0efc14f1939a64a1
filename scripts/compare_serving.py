#!/usr/bin/env python3
"""Many requests at once: loci's engine beside llama-server on the same file, token ids and arrival times.

Three workloads, each run by both in turns:
  shared  requests with one long prefix, in a cache that holds a quarter of them without sharing
  hit     the same prompt twice: time to the first token from a cold and from a full cache
  mixed   requests of all lengths, and a very long prompt that arrives in their midst

No HTTP on loci's side: `loci bench-serving` drives the engine directly. llama-server is spoken to over HTTP from this
script, which costs it a little.

  scripts/compare_serving.py                        all three on SmolLM2
  scripts/compare_serving.py --quick                a tenth of the work
  scripts/compare_serving.py -m qwen2.5-coder-0.5b -w shared -r 3 -o serving.json
"""

import argparse
import http.client
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers

HOST = "127.0.0.1"
PAGE = 32  # sizes of the cache are rounded up to this many tokens per request


class Workload:
    """Requests, and how much cache and how many places each side gets."""

    def __init__(self, name, requests, n_ctx, n_parallel, n_parallel_peer, title):
        self.name, self.requests, self.title = name, requests, title
        self.n_ctx, self.n_parallel, self.n_parallel_peer = n_ctx, n_parallel, n_parallel_peer


def ids(rng, n):
    """Token ids that every vocabulary has, none of them special."""
    return [rng.randrange(1000, 40000) for _ in range(n)]


def room(*requests):
    """Cache that holds these side by side without sharing."""
    return sum(-(-(len(r["prompt"]) + r["max_tokens"] + 1) // PAGE) * PAGE + PAGE for r in requests)


def shared_workload(scale, rng):
    n, n_fitting = (64, 16) if scale == 1 else (16, 4)
    prefix = ids(rng, int(2000 * scale))
    requests = [{"id": f"s{i}", "prompt": prefix + ids(rng, 32), "max_tokens": 32} for i in range(n)]
    title = f"{n} requests sharing {len(prefix)} tokens, cache for {n_fitting}"
    return Workload("shared", requests, room(*requests[:n_fitting]), n, n_fitting, title)


def hit_workload(scale, rng):
    prompt = ids(rng, int(2000 * scale))
    cold = {"id": "cold", "prompt": prompt, "max_tokens": 8}
    hit = {"id": "hit", "prompt": prompt, "max_tokens": 8, "after": "cold", "at_ms": 100}
    return Workload("hit", [cold, hit], room(cold, hit), 1, 1, f"a prompt of {len(prompt)} tokens, twice")


def mixed_workload(scale, rng):
    n = 32 if scale == 1 else 8
    requests = []
    for i in range(n):
        n_prompt, max_tokens = int(2 ** rng.uniform(4, 9)), int(2 ** rng.uniform(5, 7))
        at_ms = round(2000 * scale * i / n, 1)
        requests.append({"id": f"m{i}", "prompt": ids(rng, n_prompt), "max_tokens": max_tokens, "at_ms": at_ms})
    long = {"id": "long", "prompt": ids(rng, int(8000 * scale)), "max_tokens": 8, "at_ms": 3000 * scale}
    requests.append(long)
    title = f"{n} mixed requests, a prompt of {len(long['prompt'])} tokens arriving"
    return Workload("mixed", requests, room(*requests), n + 1, n + 1, title)


WORKLOADS = {"shared": shared_workload, "hit": hit_workload, "mixed": mixed_workload}


def run_loci(workload, model, args):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for request in workload.requests:
            file.write(json.dumps(request) + "\n")
        file.flush()
        command = [args.loci, "bench-serving", file.name, "-m", model]
        command += ["--kv-tokens", str(workload.n_ctx), "-np", str(workload.n_parallel), "-t", str(args.threads)]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"error: exit code {result.returncode}: {' '.join(command)}\n{result.stderr[-2000:]}")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    return {line["id"]: line for line in lines if "id" in line}, lines[-1]["summary"]


def complete(port, request, start, done):
    """Sends one request to llama-server and notes when each token came."""
    connection = http.client.HTTPConnection(HOST, port, timeout=3600)
    body = {"prompt": request["prompt"], "n_predict": request["max_tokens"], "stream": True, "cache_prompt": True}
    body |= {"temperature": 0, "top_k": 1, "ignore_eos": True, "return_tokens": True}
    submitted = time.monotonic()
    connection.request("POST", "/completion", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"llama-server: {response.status}: {response.read(500)!r}")
    token_ms, tokens, last = [], [], {}
    for raw in response:
        if not raw.startswith(b"data: {"):
            continue
        last = json.loads(raw[6:])
        if "error" in last:
            raise RuntimeError(f"llama-server: {last['error']}")
        token_ms += [1e3 * (time.monotonic() - start)] * len(last.get("tokens", []))
        tokens += last.get("tokens", [])
    timings = last["timings"]
    done[request["id"]] = {
        "id": request["id"],
        "n_prompt": len(request["prompt"]),
        "n_cached": len(request["prompt"]) - timings["prompt_n"],
        "n_predicted": timings["predicted_n"],
        "submitted_ms": 1e3 * (submitted - start),
        "finished_ms": 1e3 * (time.monotonic() - start),
        "token_ms": token_ms,
        "tokens": tokens,
    }


def run_server(workload, model, args):
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    command = [args.llama_server or peers.llama_program("llama-server"), "-m", model]
    command += ["-c", str(workload.n_ctx), "--kv-unified"]
    command += ["-np", str(workload.n_parallel_peer), "-t", str(args.threads), "--host", HOST, "--port", str(port)]
    with tempfile.TemporaryFile("w+") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        with peers.ending(process):
            wait_until_healthy(port, process, log)
            return replay(port, workload.requests), {}


def wait_until_healthy(port, process, log):
    for _ in range(1200):
        if process.poll() is not None:
            log.seek(0)
            sys.exit(f"error: llama-server ended with {process.returncode}\n{log.read()[-2000:]}")
        try:
            connection = http.client.HTTPConnection(HOST, port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        time.sleep(0.25)
    sys.exit("error: llama-server was not ready within five minutes")


def replay(port, requests):
    done, failures = {}, []
    finished = {request["id"]: threading.Event() for request in requests}
    start = time.monotonic()

    def send(request):
        try:
            begin = start
            if request.get("after"):
                finished[request["after"]].wait()
                begin = time.monotonic()
            time.sleep(max(0, begin + request.get("at_ms", 0) / 1e3 - time.monotonic()))
            complete(port, request, start, done)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            failures.append(f"{request['id']}: {error}")
        finally:
            finished[request["id"]].set()

    threads = [threading.Thread(target=send, args=(request,)) for request in requests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        sys.exit("error: " + "; ".join(failures[:3]))
    return done


def ttft_ms(result):
    return result["token_ms"][0] - result["submitted_ms"]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def gaps(results, begin, end):
    """Times between tokens of a request that fall between `begin` and `end`."""
    found = []
    for result in results:
        times = result["token_ms"]
        found += [b - a for a, b in zip(times, times[1:]) if b >= begin and a <= end]
    return found


def figures(name, results, summary):
    """{figure: (value, whether less is better)} of one run."""
    all_results = list(results.values())
    total_ms = max(r["finished_ms"] for r in all_results)
    if name == "shared":
        computed = sum(r["n_prompt"] - r["n_cached"] for r in all_results) + summary.get("n_recomputed", 0)
        return {"total, s": (total_ms / 1e3, True), "prompt tokens computed": (computed, True)}
    if name == "hit":
        cold, hit = ttft_ms(results["cold"]), ttft_ms(results["hit"])
        share = 100 * hit / cold
        return {"TTFT cold, ms": (cold, True), "TTFT hit, ms": (hit, True), "hit / cold, %": (share, True)}
    short = [r for r in all_results if r["id"] != "long"]
    long = results["long"]
    during = gaps(short, long["submitted_ms"], long["token_ms"][0])
    all_gaps = gaps(short, 0, total_ms)
    return {
        "generated tokens/s": (1e3 * sum(r["n_predicted"] for r in all_results) / total_ms, False),
        "all tokens/s": (1e3 * sum(r["n_predicted"] + r["n_prompt"] for r in all_results) / total_ms, False),
        "p99 between tokens, ms": (percentile(all_gaps, 0.99), True),
        "the same while the long prompt runs, ms": (percentile(during, 0.99) if during else float("nan"), True),
        "TTFT of the long prompt, s": (ttft_ms(long) / 1e3, True),
        "median TTFT of the others, ms": (statistics.median(ttft_ms(r) for r in short), True),
    }


def compare(args):
    peers.check_loci(args.loci)
    path = peers.model_path(args.model)
    programs = [("loci", run_loci)] + ([] if args.no_llama else [("llama-server", run_server)])
    lines = ["| workload | figure | " + " | ".join(name for name, _ in programs) + " | better by |"]
    lines.append("|---|---|" + "--:|" * (len(programs) + 1))
    records = []
    for name in args.workload or WORKLOADS:
        samples = {program: {} for program, _ in programs}
        for repetition in range(args.repetitions):
            workload = WORKLOADS[name](0.1 if args.quick else 1, random.Random(repetition))
            for program, run in peers.turned(programs, repetition):
                results, summary = run(workload, path, args)
                for figure, value in figures(name, results, summary).items():
                    samples[program].setdefault(figure, []).append(value)
                record = {"workload": name, "program": program, "repetition": repetition, "summary": summary}
                records.append({**record, "results": results})
                peers.say(f"{workload.title}: {program}, repetition {repetition + 1} of {args.repetitions}")
        for figure, ours in samples["loci"].items():
            row, medians = [workload.title, figure], []
            for program, _ in programs:
                values = [value for value, _ in samples[program][figure]]
                medians.append(statistics.median(values))
                row.append(peers.spread(values))
            less_is_better = ours[0][1]
            ratio = (medians[-1] / medians[0]) if less_is_better else (medians[0] / medians[-1])
            lines.append("| " + " | ".join([*row, f"{ratio:.2f}" if len(programs) > 1 else "–"]) + " |")
    print(
        f"{peers.machine()}; {os.path.basename(path)}, {args.threads} threads; medians of {args.repetitions} "
        f"(min–max), in turns; llama-server: {peers.PACKAGE}\n\n" + "\n".join(lines)
    )
    if args.output:
        peers.write_json(args.output, {"model": os.path.basename(path), "threads": args.threads}, records)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default="smollm2", help="a file or an alias")
    parser.add_argument("-w", "--workload", action="append", choices=WORKLOADS, help="may be repeated")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-r", "--repetitions", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tokens, fewer requests")
    parser.add_argument("-o", "--output", help="write every request's times to this JSON file")
    parser.add_argument("--loci", default=peers.LOCI)
    parser.add_argument("--llama-server", help="another server that speaks its /completion; default: the built one")
    parser.add_argument("--no-llama", action="store_true", help="without a server beside it")
    compare(parser.parse_args())


if __name__ == "__main__":
    main()
