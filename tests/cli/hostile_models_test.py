"""Every file of the reference set's model generator, through `inspect` and, where it loads, through `run`: the outcome
that its manifest states, one line that names the fault, no signal, bounded memory and time. Paths that are no model."""
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import unittest

from cli_testing import BINARY, GEMMA, SMOLLM2, TINY, TestCase, environment, main, needs, run

SHARED = os.environ.get("LOCI_SHARED") or os.path.join(os.path.dirname(__file__), "../../../shared")
GENERATOR = os.path.join(SHARED, "cases/gen/make_gguf.py")

# What the message about each refused file must name.
NAMED = {
    "n_kv_2p32": "4294967296", "n_kv_500m": "500000000", "n_kv_minus1": "18446744073709551615",
    "n_tensors_2p40": "1099511627776", "n_tensors_one_more": "tensor info 12", "n_kv_one_less": "chat_template",
    "n_tensors_wrap_0": "tensor count", "n_tensors_wrap_1": "tensor count", "n_tensors_wrap_2": "tensor count",
    "n_tensors_wrap_3": "tensor count", "nested_3000": "x.a", "nested_200000": "x.a", "nested_2": "x.a",
    "dim1_zero": "[32, 0]", "dim0_zero": "[0, 32]", "dim_zero_minimal": "[1, 0]", "dim_zero_unused": "extra.weight",
    "pad_wrap": "token_embd.weight", "pad_wrap_last": "output.weight", "n_dims_5": "found 5", "n_dims_9": "found 9",
    "n_dims_max": "found 4294967295", "n_dims_0": "found 0", "dup_key": "llama.block_count",
    "dup_key_same": "general.name",
    "empty_key": "21", "key_not_utf8": "\\x1b", "off_past_end": "output.weight", "off_wrap": "output.weight",
    "off_2p63": "output.weight", "off_unaligned": "output_norm.weight", "off_overlap": "attn_k.weight",
    "off_last_short": "output.weight", "heads_0": "head_count", "kv_heads_0": "head_count_kv",
    "layers_0": "block_count",
    "width_0": "embedding_length", "ff_0": "feed_forward_length", "rope_dims_0": "rope.dimension_count",
    "ctx_0": "context_length", "layers_513": "513", "layers_100000": "100000", "layers_max": "4294967295",
    "layers_2p31": "2147483648", "layers_2": "blk.1.", "heads_array_long": "600", "heads_3": "3", "kv_heads_3": "3",
    "heads_64": "64", "rope_dims_16": "16", "rope_dims_7": "7", "eps_nan": "nan", "eps_negative": "-1",
    "freq_nan": "nan", "freq_0": "freq_base", "no_arch": "general.architecture", "arch_unknown": "qwerty9",
    "arch_nul": "llama\\x00", "no_width": "embedding_length", "ff_other": "ffn_", "eos_is_n": "eos_token_id",
    "bos_max": "bos_token_id", "eos_minus1": "eos_token_id", "unk_max": "unknown_token_id",
    "no_output_norm": "output_norm.weight", "no_embd": "token_embd.weight", "no_attn_v": "attn_v.weight",
    "no_tensors": "token_embd.weight", "attn_k_turned": "attn_k.weight", "matrix_1d": "ffn_down.weight",
    "part-00001-of-00002": "part-00002-of-00002.gguf", "late-00002-of-00002": "late-00001-of-00002.gguf",
    "split_count_max": "65535", "glued": "second GGUF file", "pre_unknown": "no-such-rule",
}
MEMORY_LIMIT = 2_000_000 * 1024  # address space, as `ulimit -v 2000000`
RESIDENT_LIMIT = 256 << 20
SECONDS = 10


def limited(*args):
    """Exit code, stdout, stderr, seconds and largest resident size of the program under limits."""

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_STACK, (512 << 10, 512 << 10))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen([BINARY, *args], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   env=environment(), preexec_fn=limit)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - start
        out.seek(0), err.seek(0)
        return process.returncode, out.read(), err.read(), seconds, usage.ru_maxrss * 1024


@unittest.skipUnless(os.path.exists(GENERATOR), "absent: " + GENERATOR)
class HostileModels(TestCase):
    def setUp(self):
        self.folder = self.temporary("models")
        subprocess.run([sys.executable, GENERATOR, self.folder], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        with open(os.path.join(self.folder, "manifest.json"), encoding="utf-8") as file:
            self.items = json.load(file)

    def check_limits(self, outcome):
        code, out, err, seconds, resident = outcome
        self.assertIn(code, (0, 1), err)
        self.assertLess(seconds, SECONDS)
        self.assertLess(resident, RESIDENT_LIMIT)
        for byte in set(out + err):
            self.assertTrue(byte >= 0x20 and byte != 0x7f or byte == 0x0a, (byte, out, err))

    def test_inspect_gives_the_stated_outcome(self):
        self.assertGreater(len(self.items), 80)
        for item in self.items:
            with self.subTest(item["file"]):
                outcome = limited("inspect", "-m", os.path.join(self.folder, item["file"]))
                self.check_limits(outcome)
                code, _, err, _, _ = outcome
                allowed = {item["expected"], item.get("also_ok", item["expected"])}
                self.assertIn("error" if code else "loads", allowed, err)
                lines = err.decode().splitlines()
                if code:
                    errors = [line for line in lines if line.startswith("error: ")]
                    self.assertEqual(len(errors), 1, err)
                    self.assertTrue(all(line.startswith(("error: ", "warning: ")) for line in lines), err)
                    self.assertIn(NAMED[item["file"].removesuffix(".gguf")], errors[0])
                elif "warning" in item.get("then", ""):
                    self.assertTrue(any(line.startswith("warning: ") for line in lines), err)

    def test_run_agrees_with_inspect_and_survives(self):
        for item in self.items:
            with self.subTest(item["file"]):
                path = os.path.join(self.folder, item["file"])
                loads = limited("inspect", "-m", path)[0] == 0
                outcome = limited("run", "-m", path, "-t", "1", "-n", "8", "-c", "64", "--temp", "0",
                                  "--ignore-eos", "-p", "hello \u6f22 the")
                self.check_limits(outcome)
                self.assertEqual(outcome[0], 0 if loads else 1, outcome)

    def test_refusing_takes_little_memory(self):
        for item in self.items:
            if item["case"] in ("S001", "S002", "S003"):
                with self.subTest(item["file"]):
                    _, _, _, seconds, resident = limited("inspect", "-m", os.path.join(self.folder, item["file"]))
                    self.assertLess(resident, 64 << 20)
                    self.assertLess(seconds, 5)  # well under one second on an idle machine

    def test_json_is_json_for_every_file_that_can_be_read(self):
        for item in self.items:
            code, out, _, _, _ = limited("inspect", "--json", "-m", os.path.join(self.folder, item["file"]))
            if out:
                report = json.loads(out)
                self.assertEqual(report["loadable"], code == 0, item["file"])


class Paths(TestCase):
    def refused(self, path, *parts):
        self.assert_error(run("inspect", "-m", path, timeout=20), *parts)
        self.assert_error(run("run", "-m", path, "hi", timeout=20), *parts)

    def test_paths_that_are_no_model(self):
        folder = self.temporary("")
        os.mkfifo(os.path.join(folder, "pipe"))
        os.symlink("nowhere", os.path.join(folder, "dangling"))
        os.symlink("loop", os.path.join(folder, "loop"))
        self.temporary("empty.gguf", b"")
        self.temporary("text.gguf", b"just text")
        self.refused("", "empty")
        for name, reason in (("none.gguf", "No such file"), ("", "is a directory"), ("pipe", "named pipe"),
                             ("dangling", "No such file"), ("loop", "symbolic links"), ("empty.gguf", "is empty"),
                             ("text.gguf", "not a GGUF file")):
            path = os.path.join(folder, name)
            self.refused(path, path.rstrip("/"), reason)
        self.refused("/dev/null", "/dev/null", "is a device")
        self.refused("/dev/zero", "/dev/zero", "is a device")

    @unittest.skipIf(os.geteuid() == 0, "the superuser may read everything")
    def test_no_permission(self):
        path = self.temporary("secret.gguf", b"GGUF")
        os.chmod(path, 0)
        self.refused(path, "no permission")


class Inspect(TestCase):
    def report(self, *args):
        result = run("inspect", "--json", *args)
        self.assertEqual(result.code, 0, result)
        return json.loads(result.text)

    def test_page_and_json_of_a_tiny_model(self):
        page = run("inspect", "-m", TINY)
        self.assertEqual((page.code, page.err), (0, b""), page)
        for word in ("architecture", "layers", "quantization", "context", "tokenizer", "chat template", "memory"):
            self.assertIn("\n  " + word, page.text)
        self.assertTrue(self.report("-m", TINY)["loadable"])

    @needs(SMOLLM2)
    def test_real_model(self):
        report = self.report("-m", SMOLLM2, "-c", "1000", "-ctk", "f32")
        self.assertEqual(report["architecture"], "llama")
        expected = {"layers": 30, "dim": 576, "heads": 9, "kv_heads": 3, "head_dim": 64, "ffn_dim": 1536,
                    "vocab_size": 49152}
        self.assertEqual({key: report["sizes"][key] for key in expected}, expected)
        self.assertEqual({t["type"]: t["tensors"] for t in report["types"]}, {"F32": 61, "Q4_1": 210, "Q8_0": 1})
        self.assertEqual(report["context_length"], 8192)
        self.assertEqual(report["memory"]["kv_bytes_per_token"], 30 * 3 * 64 * (4 + 2))
        self.assertEqual(report["memory"]["kv_bytes"], 30 * 3 * 64 * (4 + 2) * 1008)
        self.assertEqual(report["tokenizer"]["special"]["eos"], {"id": 2, "text": "<|im_end|>"})

    # Three layers of 256 channels keep all tokens, fifteen a quarter of them at least.
    @needs(GEMMA)
    def test_layers_with_a_window(self):
        memory = self.report("-m", GEMMA, "-c", "32768")["memory"]
        layer = 256 * (2 + 2)
        self.assertEqual(memory["kv_bytes_per_token"], 18 * layer)
        self.assertEqual(memory["kv_window_bytes_per_token"], 15 * layer)
        self.assertEqual(memory["kv_window_tokens"], 8192)
        self.assertEqual(memory["kv_bytes"], layer * (3 * 32768 + 15 * 8192))
        self.assertIn("in layers with a window: room for 8192 tokens there", run("inspect", "-m", GEMMA).text)
        memory = self.report("-m", GEMMA, "-c", "32768", "--swa-full")["memory"]
        self.assertEqual(memory["kv_bytes"], layer * 18 * 32768)
        self.assertNotIn("kv_window_tokens", memory)

    def test_bad_cache_type(self):
        self.assert_error(run("inspect", "-m", TINY, "-ctk", "q9"), "-ctk", "'q9'")


class LockedMemory(TestCase):
    @needs(SMOLLM2)
    def test_refused_lock_is_one_warning(self):
        setpriv = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"] if os.geteuid() == 0 else []

        def limit():
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 << 10, 64 << 10))

        done = subprocess.run([*setpriv, BINARY, "run", "-m", SMOLLM2, "--mlock", "-n", "1", "-c", "64", "-p", "a"],
                              stdin=subprocess.DEVNULL, capture_output=True, env=environment(), preexec_fn=limit,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done)
        warnings = [line for line in done.stderr.decode().splitlines() if "lock" in line]
        self.assertEqual(len(warnings), 1, done)
        self.assertIn("ulimit -l", warnings[0])


if __name__ == "__main__":
    main()
