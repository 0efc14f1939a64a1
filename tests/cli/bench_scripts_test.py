"""The measuring scripts on tiny models and on SmolLM2: shapes of output, not figures."""
import json
import os
import subprocess
import sys

from cli_testing import BINARY, MODELS, SANITIZED, SMOLLM2, TINY, TestCase, main, needs, run

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "..", "..", "scripts")
FAKE_SERVER = os.path.join(HERE, "fake_llama_server.py")


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
        self.assertIn("| start to end of a prompt of 32, ms |", result.stdout)

    def test_compare_peers_memory(self):
        result = self.script("compare_peers.py", "--loci", BINARY, "--no-llama", "--memory", "-m", TINY, "-t", "1",
                             "-p", "16", "-n", "4", "-c", "64", "-r", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| peak, 16 + 4 tokens, MiB |", result.stdout)
        self.assertIn("| peak / (file + K/V), 16 + 4 tokens |", result.stdout)

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
