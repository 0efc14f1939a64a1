"""loci batch on SmolLM2 and questions of GSM8K: killed five times with signal 9, it ends with what an uninterrupted run
gives. LOCI_BATCH_FULL=1 takes all 200 questions (many minutes) instead of a few; LOCI_BATCH_TOKENS and
LOCI_BATCH_THREADS suit it to a busy machine."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time

from cli_testing import BINARY, SMOLLM2, TestCase, environment, main, needs, run

SHARED = os.environ.get("LOCI_SHARED") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared")
QUESTIONS = os.path.join(SHARED, "reference/prompts/gsm8k_test_200.jsonl")
FULL = os.environ.get("LOCI_BATCH_FULL", "") not in ("", "0")
N_QUESTIONS, MAX_TOKENS = (200, int(os.environ.get("LOCI_BATCH_TOKENS", "64"))) if FULL else (40, 12)
THREADS = os.environ.get("LOCI_BATCH_THREADS", "2")
SYSTEM = "You are a careful assistant. Solve the problem step by step and end with the number alone on the last line."


def say(text):
    print(text, file=sys.stderr, flush=True)


@needs(SMOLLM2)
@needs(QUESTIONS)
class Gsm8k(TestCase):
    def requests(self):
        with open(QUESTIONS, encoding="utf-8") as file:
            questions = [json.loads(line)["question"] for line in file][:N_QUESTIONS]
        lines = []
        for i, question in enumerate(questions):
            body = {"model": "any", "max_tokens": MAX_TOKENS - i % 5, "temperature": i % 2, "seed": i,
                    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]}
            lines.append(json.dumps({"custom_id": "gsm8k-%d" % i, "method": "POST", "url": "/v1/chat/completions",
                                     "body": body}))
        return lines

    def answers(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.endswith("\n"))
        answers = {}
        for line in text.splitlines():
            result = json.loads(line)
            self.assertIsNone(result["error"])
            self.assertNotIn(result["custom_id"], answers)
            body = result["response"]["body"]
            answers[result["custom_id"]] = (result["id"], body["id"], body["choices"], body["usage"]["prompt_tokens"],
                                            body["usage"]["completion_tokens"])
        return answers

    def n_lines(self, path):
        try:
            with open(path, "rb") as file:
                return file.read().count(b"\n")
        except FileNotFoundError:
            return 0

    def test_killed_five_times(self):
        lines = self.requests()
        source = self.temporary("in.jsonl", "\n".join(lines) + "\n")
        whole, out = self.temporary("whole.jsonl"), self.temporary("out.jsonl")
        flags = ("batch", "-m", SMOLLM2, "-c", "4096", "-t", THREADS, "-np", "8")
        start = time.monotonic()
        # Beside it, the one that is killed: two processes share the machine.
        uninterrupted = subprocess.Popen([BINARY, *flags, source, whole], stderr=subprocess.PIPE, env=environment())
        self.addCleanup(uninterrupted.kill)

        generator = random.Random()
        n_kills = 0
        while n_kills < 5:
            n_before = self.n_lines(out)
            self.assertLess(n_before, len(lines) - 1)
            process = subprocess.Popen([BINARY, *flags, source, out], stderr=subprocess.DEVNULL, env=environment())
            # Some runs are killed before their first line.
            wanted = n_before + (0 if n_kills == 1 else generator.randrange(1, max(2, len(lines) // 16)))
            while self.n_lines(out) < wanted and process.poll() is None:
                time.sleep(0.01)
            time.sleep(generator.random() * 0.2)
            process.kill()
            self.assertEqual(process.wait(60), -signal.SIGKILL)
            n_kills += 1
            say("kill %d after %.1f s: %d of %d lines"
                % (n_kills, time.monotonic() - start, self.n_lines(out), len(lines)))
        result = run(*flags, source, out, timeout=7200)
        self.assertEqual(result.code, 0, result)
        say("killed five times: %.1f s\n%s" % (time.monotonic() - start, result.error))
        _, said = uninterrupted.communicate(timeout=7200)
        self.assertEqual(uninterrupted.returncode, 0, said)
        say("uninterrupted: %.1f s\n%s" % (time.monotonic() - start, said.decode()))
        self.assertGreater(float(re.search(r"([\d.]+) % of them from the cache", said.decode()).group(1)), 15)
        self.assertEqual(len(self.answers(out)), len(lines))
        self.assertEqual(self.answers(out), self.answers(whole))

        # And each is what its line gives alone.
        for i in (0, len(lines) // 2, len(lines) - 1):
            alone = self.temporary("alone%d.jsonl" % i)
            self.assertEqual(run(*flags[:-1], "1", self.temporary("line%d" % i, lines[i]), alone).code, 0)
            self.assertEqual(self.answers(alone)["gsm8k-%d" % i][2], self.answers(whole)["gsm8k-%d" % i][2])


if __name__ == "__main__":
    main()
