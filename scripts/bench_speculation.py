#!/usr/bin/env python3
"""Decode speed with and without speculation on prompts of several kinds; medians and ratios, and whether tokens agree.

Kinds: completion (HumanEval as it is, without chat template), code (HumanEval asked for as a whole function), chat
(MT-bench), edit (a HumanEval solution to be repeated with a small change, so that most of the answer stands in the
prompt). All modes take turns on each prompt in one process.

  scripts/bench_speculation.py                                0.5B drafting for 1.5B, 8 prompts of each kind
  scripts/bench_speculation.py --kinds edit --modes none,ngram -n 4
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
KINDS = ("completion", "code", "chat", "edit")


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def prompts_of(kind, folder, n):
    """n prompts, spread over the whole file."""
    name = "mt_bench.jsonl" if kind == "chat" else "humaneval.jsonl"
    lines = read_lines(os.path.join(folder, name))
    chosen = [lines[i * len(lines) // n] for i in range(n)]
    for line in chosen:
        if kind == "chat":
            text = line["turns"][0]
        elif kind == "completion":
            text = line["prompt"]
        elif kind == "code":
            text = "Complete this Python function. Answer with the whole function.\n\n"
            text += "```python\n" + line["prompt"] + "```"
        else:
            code = line["prompt"] + line["canonical_solution"]
            text = (
                f"Rename the function `{line['entry_point']}` to `solve` in this code and change nothing else. "
                "Answer with the whole code.\n\n```python\n" + code + "```"
            )
        yield {"kind": kind, "text": text, "raw": kind == "completion"}


CLOCK = "predicted_ms"  # of an answer: wall time; --cpu takes processor time


def rate(answer):
    """Tokens per second behind the first token, which comes with the prompt."""
    return 1000 * (answer["n_predicted"] - 1) / answer[CLOCK] if answer[CLOCK] > 0 else 0


def table(answers, kinds, modes):
    rows = [
        "| prompts | mode | t/s | ratio to none (least) | drafted | accepted | by position |",
        "|---|---|--:|--:|--:|--:|---|",
    ]
    for kind in kinds:
        of_kind = [a for a in answers if a["kind"] == kind and a["n_predicted"] > 8]
        plain = {}
        for prompt in {a["prompt"] for a in of_kind}:
            rates = [rate(a) for a in of_kind if a["mode"] == modes[0] and a["prompt"] == prompt]
            plain[prompt] = statistics.median(rates)
        for mode in modes:
            own = [a for a in of_kind if a["mode"] == mode]
            if not own:
                continue
            per_prompt = {}
            for answer in own:
                per_prompt.setdefault(answer["prompt"], []).append(rate(answer))
            ratios = [statistics.median(rates) / plain[prompt] for prompt, rates in per_prompt.items()]
            drafted, accepted = sum(a["n_drafted"] for a in own), sum(a["n_accepted"] for a in own)
            places = []
            for i in range(6):
                tried = sum(a["drafted_at"][i] for a in own if i < len(a["drafted_at"]))
                right = sum(a["accepted_at"][i] for a in own if i < len(a["accepted_at"]))
                if tried:
                    places.append(f"{right / tried:.2f}")
            rows.append(
                f"| {kind} | {mode} | {statistics.median(rate(a) for a in own):.1f} "
                f"| {statistics.median(ratios):.2f} ({min(ratios):.2f}) | {drafted} | {accepted} | {' '.join(places)} |"
            )
    return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = os.environ.get("LOCI_MODELS") or os.path.expanduser("~/.cache/loci/models")
    parser.add_argument("-m", "--model", default=os.path.join(models, "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"))
    parser.add_argument("-md", "--draft", default=os.path.join(models, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--modes", default="none,ngram,draft,auto")
    parser.add_argument("-n", type=int, default=8, help="prompts of each kind")
    parser.add_argument("-r", "--repetitions", type=int, default=1)
    parser.add_argument("-t", "--threads", type=int, default=0)
    parser.add_argument("--temp", type=float, default=0)
    parser.add_argument("--draft-vocab", type=int, default=32768, help="token ids that the draft model drafts; 0: all")
    parser.add_argument("--predict", type=int, default=128)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "ci"))
    parser.add_argument("--prompts", default=os.path.join(ROOT, "..", "shared", "reference", "prompts"))
    parser.add_argument("-o", "--output", help="file for the answers as JSON lines")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of wall time, for a busy machine")
    args = parser.parse_args()
    global CLOCK
    CLOCK = "cpu_ms" if args.cpu else CLOCK
    kinds, modes = args.kinds.split(","), args.modes.split(",")

    subprocess.run(["cmake", "--build", args.build, "--target", "speculation_bench"], check=True, stdout=sys.stderr)
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        for kind in kinds:
            for prompt in prompts_of(kind, args.prompts, args.n):
                file.write(json.dumps(prompt) + "\n")
        file.flush()
        bench = os.path.join(args.build, "tests", "bench", "speculation_bench")
        command = [bench, args.model, args.draft or "-", file.name, args.modes, str(args.predict)]
        command += [str(args.repetitions), str(args.threads), str(args.temp), str(args.draft_vocab)]
        load_before = os.getloadavg()[0]
        answers = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                answers.append(json.loads(line))
                a = answers[-1]
                print(f"{a['kind']} {a['prompt']} {a['mode']}: {rate(a):.1f} t/s", file=sys.stderr, flush=True)
        if args.output:
            with open(args.output, "w", encoding="utf-8") as out:
                out.writelines(json.dumps(a) + "\n" for a in answers)
    print(table(answers, kinds, modes))
    print(f"\nload {load_before:.1f} before, {os.getloadavg()[0]:.1f} after; {len(answers)} answers, "
          f"{sum(not a['same'] for a in answers)} with other tokens")
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
