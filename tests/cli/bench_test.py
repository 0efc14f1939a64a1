"""The measuring commands and scripts, run for real on tiny models: shapes of output, not figures."""
import json
import os
import subprocess
import sys

from cli_testing import BINARY, MODELS, SANITIZED, SMOLLM2, TINY, TestCase, main, needs, run

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
FAKE_SERVER = os.path.join(HERE, "fake_llama_server.py")


class Bench(TestCase):
    def test_rows_with_and_without_the_ceiling(self):
        shape = ["-m", TINY, "-p", "40", "-n", "4", "-d", "0,32", "-r", "2", "-t", "1", "-o", "json"]
        rows = json.loads(run("bench", *shape).text)
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in rows],
                         [(40, 0, 0), (0, 4, 0), (40, 0, 32), (0, 4, 32)])
        for row in rows:
            self.assertEqual(len(row["samples_ns"]), 2)
            self.assertGreater(row["bytes_per_token"], 0)
            self.assertGreater(row["read_share"], 0)
            self.assertGreater(row["peak_int8_gmac_s"], 0)
        self.assertGreater(rows[3]["bytes_per_token"], rows[1]["bytes_per_token"])
        for row in json.loads(run("bench", *shape, "--no-roofline").text):
            self.assertIsNone(row["read_share"])
            self.assertGreater(row["read_gb_s"], 0)

    def test_batched_table_and_lines(self):
        shape = ["-m", TINY, "-npp", "20,40", "-ntg", "4", "-npl", "1,3", "-t", "1"]
        lines = run("batched-bench", *shape).text.splitlines()
        self.assertEqual(len(lines), 2 + 4)
        self.assertIn("S_TG t/s", lines[0])
        rows = [json.loads(line) for line in run("batched-bench", *shape, "-pps", "-o", "jsonl").text.splitlines()]
        self.assertEqual([(r["pp"], r["tg"], r["pl"], r["n_kv"]) for r in rows],
                         [(20, 4, 1, 24), (20, 4, 3, 32), (40, 4, 1, 44), (40, 4, 3, 52)])
        self.assertTrue(all(r["is_pp_shared"] == 1 and r["speed_tg"] > 0 and r["tg_read_share"] > 0 for r in rows))

    def test_batched_skips_what_does_not_fit(self):
        result = run("batched-bench", "-m", TINY, "-npp", "20,400", "-ntg", "4", "-npl", "2", "-c", "256", "-t", "1")
        self.assertEqual(len(result.text.splitlines()), 3, result)
        self.assertIn("PP 400, TG 4, B 2: skipped", result.error)

    def test_serving_a_workload(self):
        requests = [{"id": "a", "prompt": list(range(3, 60)), "max_tokens": 5},
                    {"id": "b", "prompt": list(range(3, 60)), "max_tokens": 5, "after": "a"}]
        text = "".join(json.dumps(request) + "\n" for request in requests)
        result = run("bench-serving", "-", "-m", TINY, "--kv-tokens", "256", "-np", "2", "-t", "1", stdin=text.encode())
        first, second, last = (json.loads(line) for line in result.text.splitlines())
        self.assertEqual(first["tokens"], second["tokens"])
        self.assertEqual(len(first["token_ms"]), 5)
        self.assertGreaterEqual(second["n_cached"], 48)
        self.assertEqual(last["summary"]["n_predicted"], 10)
        self.assert_error(run("bench-serving", "-", "-m", TINY, stdin=b"{}\n"), "standard input: line 1: ")
        self.assert_error(run("bench-serving", "/absent", "-m", TINY), "/absent: cannot be opened")


class Scripts(TestCase):
    def script(self, name, *args):
        environment = dict(os.environ, LOCI_MODELS=MODELS, PYTHONDONTWRITEBYTECODE="1")
        return subprocess.run([sys.executable, os.path.join(SCRIPTS, name), *args], capture_output=True, text=True,
                              env=environment, timeout=250, check=False)

    def test_compare_peers(self):
        # The program beside itself.
        out, plot = self.temporary("out.json"), self.temporary("out.svg")
        result = self.script("compare_peers.py", "--loci", BINARY, "--no-llama", "--peer-bench",
                             f"self={BINARY} bench --no-roofline", "-m", TINY, "-t", "1", "-p", "16", "-n", "4", "-d",
                             "0,16", "-r", "2", "-o", out, "--plot", plot)
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("| loci / self |", "| pp16 |", "| tg4 @ d16 |", " % |"):
            self.assertIn(text, result.stdout)
        with open(out, encoding="utf-8") as file:
            rates = json.load(file)["results"][0]["rates"]
        self.assertEqual({name: len(tests["tg4"]) for name, tests in rates.items()}, {"loci": 2, "self": 2})
        with open(plot, encoding="utf-8") as file:
            self.assertIn("</svg>", file.read())

    def test_compare_peers_batched(self):
        result = self.script("compare_peers.py", "--loci", BINARY, "--no-llama", "--batched", "--peer-bench",
                             f"self={BINARY} batched-bench", "-m", TINY, "-t", "1", "-p", "16", "-n", "4", "-B", "1,2",
                             "-r", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("| pp16 B=2 |", "| tg4 B=2 after 16 |"):
            self.assertIn(text, result.stdout)

    def test_compare_peers_startup(self):
        result = self.script("compare_peers.py", "--loci", BINARY, "--no-llama", "--startup", "-m", TINY, "-t", "1",
                             "-r", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| peak memory, MB |", result.stdout)

    @needs(SMOLLM2)
    def test_compare_serving(self):
        if SANITIZED:
            self.skipTest("minutes under sanitizers")
        out = self.temporary("out.json")
        result = self.script("compare_serving.py", "--loci", BINARY, "--llama-server", FAKE_SERVER, "--quick", "-w",
                             "hit", "-w", "mixed", "-r", "1", "-t", "1", "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        for text in ("| hit / cold, % |", "| TTFT of the long prompt, s |", "| llama-server |"):
            self.assertIn(text, result.stdout)
        with open(out, encoding="utf-8") as file:
            runs = json.load(file)["results"]
        self.assertEqual([(r["workload"], r["program"]) for r in runs],
                         [(w, p) for w in ("hit", "mixed") for p in ("loci", "llama-server")])
        for ours, theirs in ((runs[0], runs[1]), (runs[2], runs[3])):
            counts = [{key: (r["n_prompt"], len(r["token_ms"])) for key, r in side["results"].items()}
                      for side in (ours, theirs)]
            self.assertEqual(counts[0], counts[1])

    @needs(SMOLLM2)
    def test_synthetic_model(self):
        # The same arguments, the same bytes; and it loads.
        paths = [self.temporary("a.gguf"), self.temporary("b.gguf")]
        for path in paths:
            result = self.script("make_synthetic_model.py", "--shape", "tiny", "--type", "q4_k_m", "--tokenizer",
                                 SMOLLM2, "-o", path)
            if "numpy and gguf are needed" in result.stderr:
                self.skipTest("no numpy and gguf")
            self.assertEqual(result.returncode, 0, result.stderr)
        contents = []
        for path in paths:
            with open(path, "rb") as file:
                contents.append(file.read())
        self.assertEqual(contents[0], contents[1])
        result = run("bench", "-m", paths[0], "-p", "8", "-n", "2", "-r", "1", "-o", "json", "--no-roofline")
        self.assertEqual(json.loads(result.text)[0]["model_type"], "llama Q4_K - Medium", result)


if __name__ == "__main__":
    main()
