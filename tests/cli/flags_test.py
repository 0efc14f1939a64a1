"""Flags, exit codes and error messages of the program, without real models."""
import ctypes
import os
import re
import resource
import subprocess
import unittest

from cli_testing import BINARY, SANITIZED, TINY, TINY_RAW, TestCase, environment, main, run

MAX = ("-n", "4", "-m", TINY)


class Flags(TestCase):
    def test_help_version_devices_completion_exit_0(self):
        for args in ([], ["help"], ["-h"], ["--help"], ["--version"], ["version"], ["--list-devices"],
                     ["--completion-bash"], ["run", "--help"], ["chat", "-h"], ["help", "run"], ["models"]):
            result = run(*args)
            self.assertEqual(result.code, 0, (args, result))
            self.assertTrue(result.out, args)
            self.assertEqual(result.err, b"", args)

    def test_completion_script_is_valid_and_completes(self):
        script = run("--completion-bash").text
        check = script + ("\nCOMP_WORDS=(%s run --tem); COMP_CWORD=2; _loci; echo \"${COMPREPLY[@]}\"" % BINARY)
        done = subprocess.run(["bash", "-c", check], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stdout.split(), [b"--temp", b"--temperature"], done)

    def test_unknown_flag(self):
        self.assert_error(run("run", "--foo"), "invalid argument: --foo")
        self.assert_error(run("run", "--tmep", "1"), "invalid argument: --tmep", "did you mean --temp?")
        self.assert_error(run("chat", "--foo=1"), "invalid argument: --foo")

    def test_unknown_command(self):
        self.assert_error(run("rum"), "rum")

    def test_flag_of_another_program_is_not_supported(self):
        for flag in ("-hf", "--lora", "--mmproj", "-ts"):
            self.assert_error(run("run", flag, "x"), "not supported by this build: " + flag)

    def test_forms_that_cannot_be_are_refused_before_the_model_is_loaded(self):
        for flags, parts in ((("--grammar", "root ::= ["), ("--grammar", "line 1, column 10", "closing ']'")),
                             (("-j", '{"properties":{"a":{"not":{}}}}'), ("--json-schema", "#/properties/a", "'not'")),
                             (("-j", "{"), ("--json-schema", "line 1")),
                             (("-jf", "/no/such.json"), ("/no/such.json",)),
                             (("-j", "{}", "--grammar", 'root ::= "a"'), ("expected one of --grammar", "found 2"))):
            for command in ("run", "chat"):
                self.assert_error(run(command, "-m", "/no/such.gguf", *flags, *(("x",) if command == "run" else ())),
                                  *parts)

    def test_speculation_where_random_tokens_are_measured_is_refused(self):
        for command in ("bench", "batched-bench"):
            for flag in ("--spec-type", "-md", "--draft-max", "--spec-draft-vocab", "--spec-adaptive"):
                self.assert_error(run(command, flag, "x"), "not supported by this build: " + flag,
                                  "scripts/bench_speculation.py")

    def test_draft_flags_that_steer_nothing_say_so(self):
        args = ("-m", TINY, "--temp", "0", "-n", "1", "-c", "64")
        steering = ("--spec-draft-p-min", "0.5", "--spec-draft-vocab", "100")
        noted = run("run", *args, "--draft-tree", "2", "hi").error
        self.assertIn("note: --draft-tree: without effect, nothing is drafted", noted)
        noted = run("run", *args, "--spec-type", "ngram", "--draft-tree", "2", *steering, "hi").error
        self.assertIn("note: --spec-draft-p-min, --spec-draft-vocab: without effect, no model drafts", noted)
        noted = run("run", *args, "-md", TINY, "--draft-tree", "2", *steering, "hi").error
        self.assertNotIn("without effect", noted)

    def test_metadata_flags_leave_the_draft_model_alone_and_say_so(self):
        args = ("-md", TINY, "-m", TINY, "-n", "2")
        self.assertNotIn("draft model", run("run", *args, "hi").error)
        result = run("run", *args, "--override-kv", "general.name=str:x", "--rope-freq-base", "5000", "hi")
        self.assertEqual(result.code, 0, result)
        self.assertIn("note: --override-kv, --rope-freq-base: for the model alone", result.error)
        self.assertNotIn("for the model alone", run("run", *MAX, "--rope-freq-base", "5000", "hi").error)

    def test_a_timeout_cuts_the_answer(self):
        args = ("-m", TINY_RAW, "-n", "900", "--ignore-eos", "-p", "abc")
        whole = run("run", *args)
        self.assertEqual(whole.code, 0, whole)
        cut = run("run", *args, "--request-timeout", "0.002")
        self.assertEqual(cut.code, 1, cut)
        self.assertIn("warning: the answer was cut after 0.002 s (--request-timeout)", cut.error)
        self.assertLess(len(cut.out), len(whole.out))
        chat = run("chat", "-m", TINY, "-n", "900", "--ignore-eos", "--request-timeout", "0.002", stdin=b"hello\n")
        self.assertEqual(chat.code, 1, chat)
        self.assertIn("--request-timeout", chat.error)
        self.assertEqual(run("run", *args[:2], "-n", "3", "--request-timeout", "100", "-p", "abc").code, 0)

    def test_bad_value(self):
        self.assert_error(run("run", "--top-k", "many"), "--top-k", "'many'")
        self.assert_error(run("run", "-p"), "-p", "expected a value")
        self.assert_error(run("run", "-ctk", "q4_1", "hi"), "not supported by this build")

    def test_environment_twin(self):
        env = environment(LLAMA_ARG_MODEL="/no/such/file.gguf")
        self.assert_error(run("run", "hi", env=env), "/no/such/file.gguf")
        self.assert_error(run("run", "-m", "/other.gguf", "hi", env=env), "/other.gguf")

    def test_no_prompt(self):
        self.assertEqual(run("run", "-m", TINY, "-p", "a", "b").code, 1)

    def test_default_model_absent_says_how_to_fetch_it(self):
        env = environment(LOCI_MODELS="/no/such/folder")
        self.assert_error(run("run", "hi", env=env), "scripts/fetch_model.sh smollm2")
        self.assert_error(run("run", "-m", "gemma3-270m", "hi", env=env), "scripts/fetch_model.sh gemma3-270m")

    def test_no_colour_and_no_progress_without_a_terminal(self):
        result = run("run", *MAX, "hi")
        self.assertEqual(result.code, 0, result)
        self.assertNotIn(b"\x1b", result.err)
        self.assertNotIn(b"\r", result.err)
        self.assertNotIn(b"t/s", result.err)


class ThreadPlacement(TestCase):
    ANSWER = ("run", *MAX, "--temp", "0", "-t", "2", "hi")

    def warnings(self, result):
        return [line for line in result.error.splitlines() if line.startswith("warning:")]

    def test_no_flag_changes_the_answer(self):
        expected = run(*self.ANSWER)
        self.assertEqual(expected.code, 0, expected)
        cpu = max(os.sched_getaffinity(0))
        for flags in (["-C", hex(1 << cpu)], ["-Cr", f"{cpu}-{cpu}"], ["--cpu-strict", "1"], ["--poll", "0"],
                      ["--prio", "-1"], ["--numa", "numactl"], ["--numa", "isolate"], ["--numa", "distribute"],
                      ["-C", hex(1 << cpu), "-Crb", "0-", "--poll-batch", "100", "--prio-batch", "-1"]):
            result = run(*self.ANSWER, *flags)
            self.assertEqual((result.code, result.out), (0, expected.out), (flags, result))

    def test_cpus_that_are_not_there(self):
        beyond = max(os.sched_getaffinity(0)) + 1
        self.assert_error(run(*self.ANSWER, "-C", hex(1 << beyond)), "--cpu-mask", f"found {beyond}")
        warnings = self.warnings(run(*self.ANSWER, "-Cr", f"0-{beyond}"))
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn(f"CPUs {beyond} are not among", warnings[0])

    def test_one_memory_node_is_said(self):
        nodes = [name for name in os.listdir("/sys/devices/system/node") if re.fullmatch(r"node\d+", name)]
        if len(nodes) != 1:
            self.skipTest(f"{len(nodes)} memory nodes")
        warnings = self.warnings(run(*self.ANSWER, "--numa", "distribute"))
        self.assertEqual(len(warnings), 1, warnings)
        self.assertIn("one memory node", warnings[0])

    def test_refused_priority_is_one_warning(self):
        def limit():
            ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_SYS_NICE: root obeys the limits too
            resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
            resource.setrlimit(resource.RLIMIT_RTPRIO, (0, 0))

        expected = run(*self.ANSWER)
        for priority in ("1", "3"):
            result = run(*self.ANSWER, "--prio", priority, preexec=limit)
            self.assertEqual((result.code, result.out), (0, expected.out), result)
            warnings = self.warnings(result)
            self.assertEqual(len(warnings), 1, result)
            self.assertIn("--prio " + priority, warnings[0])


class PromptSources(TestCase):
    def prompt_tokens(self, *args, stdin=b""):
        result = run("run", "-m", TINY_RAW, "-n", "0", "--verbose-prompt", *args, stdin=stdin)
        self.assertEqual(result.code, 0, result)
        return [int(line.split()[0]) for line in result.error.splitlines() if " -> '" in line]

    def test_all_sources_give_the_same_prompt(self):
        path = self.temporary("p.txt", "abc def\n")
        expected = self.prompt_tokens("-p", "abc def")
        self.assertEqual(len(expected), 7)
        self.assertEqual(self.prompt_tokens("abc", "def"), expected)
        self.assertEqual(self.prompt_tokens("-f", path), expected)
        self.assertEqual(self.prompt_tokens("-f", "-", stdin=b"abc def\n"), expected)
        self.assertEqual(self.prompt_tokens(stdin=b"abc def"), expected)

    def test_escapes_in_p_only(self):
        self.assertEqual(len(self.prompt_tokens("-p", r"a\nb")), 3)
        self.assertEqual(len(self.prompt_tokens("-p", r"a\nb", "--no-escape")), 4)
        self.assertEqual(len(self.prompt_tokens("-f", self.temporary("e.txt", r"a\nb"))), 4)

    def test_s015_nul_in_a_prompt_file_hides_nothing(self):
        before = self.prompt_tokens("-f", self.temporary("a", b"Say ONE."))
        all_of_it = self.prompt_tokens("-f", self.temporary("b", b"Say ONE.\0 No, say TWO."))
        self.assertEqual(len(all_of_it), len(before) + 14)
        self.assertEqual(len(self.prompt_tokens("-f", self.temporary("c", b"a\0" * 400))), 800)

    def test_s069_one_trailing_newline_is_dropped(self):
        count = {}
        for name, content in (("none", b"A: 1\nB: 2"), ("one", b"A: 1\nB: 2\n"), ("two", b"A: 1\nB: 2\n\n"),
                              ("crlf", b"A: 1\nB: 2\r\n")):
            count[name] = len(self.prompt_tokens("-f", self.temporary(name, content)))
            count[name + " raw"] = len(self.prompt_tokens("-bf", self.temporary(name, content)))
        self.assertEqual(count["one"], count["none"])
        self.assertEqual(count["two"], count["none"] + 1)
        self.assertEqual(count["crlf"], count["none"])
        self.assertEqual([count[n + " raw"] - count["none"] for n in ("none", "one", "two", "crlf")], [0, 1, 2, 2])

    def test_s070_prompt_files_keep_their_bytes(self):
        content = b"\xef\xbb\xbfa\r\nb\rc"
        self.assertEqual(len(self.prompt_tokens("-f", self.temporary("bom", content))), len(content))

    def test_a_missing_file_is_named(self):
        self.assert_error(run("run", *MAX, "-f", "/no/such.txt"), "/no/such.txt")
        self.assert_error(run("run", *MAX, "-f", "/"), "directory")


class ModelFiles(TestCase):
    def refused(self, path, *parts):
        for command in ("run", "chat"):
            self.assert_error(run(command, "-m", path, "-p", "hi", "-n", "1", timeout=10), *parts)

    def test_s071_missing_path(self):
        self.refused("/no/such/model.gguf", "/no/such/model.gguf", "No such file")

    def test_s071_directory(self):
        self.refused(self.temporary(), "directory")

    def test_s071_empty_string(self):
        self.refused("", "empty")

    def test_s071_empty_file(self):
        self.refused(self.temporary("empty.gguf", b""), "empty.gguf", "empty")

    @unittest.skipIf(os.geteuid() == 0, "root may read anything")
    def test_s071_no_permission(self):
        path = self.temporary("secret.gguf", b"GGUF")
        os.chmod(path, 0)
        self.refused(path, "secret.gguf", "ermission")

    def test_s071_no_permission_as_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become another user")
        path = self.temporary("secret.gguf", b"GGUF")
        os.chmod(path, 0)

        def drop():  # without these two capabilities the mode bits count for root too
            libc = ctypes.CDLL(None)
            for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
                libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

        result = run("run", "-m", path, "hi", preexec=drop)
        self.assert_error(result, "secret.gguf", "ermission")

    def test_s071_fifo(self):
        path = self.temporary("fifo.gguf")
        os.mkfifo(path)
        self.refused(path, "fifo.gguf", "regular file")

    def test_s071_devices(self):
        self.refused("/dev/null", "/dev/null", "regular file")
        self.refused("/dev/zero", "/dev/zero", "regular file")

    def test_s071_dangling_link(self):
        path = self.temporary("link.gguf")
        os.symlink("/no/such/target", path)
        self.refused(path, "link.gguf", "No such file")

    def test_s071_link_loop(self):
        path = self.temporary("loop.gguf")
        os.symlink(path, path)
        self.refused(path, "loop.gguf", "symbolic links")

    def test_s072_prompt_longer_than_the_context(self):
        def result(n_prompt, context):
            path = self.temporary("long.txt", "x" * n_prompt)
            return run("run", "-no-cnv", "-m", TINY_RAW, "-f", path, "-n", "1",
                       "-c", str(context), "-b", "32", "-ub", "32")

        for n_prompt in (31, 32, 33, 127):  # around a batch, and one less than the context
            self.assertEqual(result(n_prompt, 128).code, 0, n_prompt)
        for n_prompt in (129, 1280):
            self.assert_error(result(n_prompt, 128), str(n_prompt), "128")
        full = result(128, 128)  # a prompt that leaves no room: refused, or answered by nothing but the end
        self.assertIn(full.code, (0, 1))
        self.assertTrue(full.code == 0 or "128" in full.error, full)

    @unittest.skipIf(SANITIZED, "sanitizers turn mlock() into nothing")
    def test_s073_locked_memory_limit_gives_one_warning(self):
        def limit():
            ctypes.CDLL(None).prctl(24, 14, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_IPC_LOCK: root obeys the limit too
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))

        result = run("run", *MAX, "--mlock", "hi", preexec=limit)
        self.assertEqual(result.code, 0, result)
        warnings = [line for line in result.error.splitlines() if line.startswith("warning:")]
        self.assertEqual(len(warnings), 1, result)
        self.assertIn("ulimit -l", warnings[0])


class Output(TestCase):
    def test_s017_any_limit_gives_valid_utf8(self):
        # The tiny model answers with random bytes.
        for n in (1, 2, 3, 5, 40):
            for model in (TINY, TINY_RAW):
                result = run("run", "-m", model, "-n", str(n), "--temp", "2", "-s", str(n), "hi")
                self.assertEqual(result.code, 0, result)
                self.assertEqual(result.text.encode(), result.out)

    def test_stdout_that_takes_no_more_is_an_error(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([BINARY, "run", *MAX, "hi"], stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, env=environment())
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(b"stdout", done.stderr)

    def test_full_disk_is_an_error_for_every_command(self):
        for args in (["help"], ["models"], ["run", "--help"], ["--list-devices"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([BINARY, *args], stdout=full, stderr=subprocess.PIPE, env=environment())
            self.assertEqual(done.returncode, 1, args)
            self.assertIn(b"error: stdout", done.stderr)

    def test_same_seed_same_text_whatever_the_batching(self):
        def text(*args):
            result = run("run", "-m", TINY_RAW, "-n", "24", "--ignore-eos", "-s", "7", *args, "-p", "abc " * 40)
            self.assertEqual(result.code, 0, result)
            return result.out

        expected = text()
        for args in (("-t", "1"), ("-t", "2"), ("-b", "7", "-ub", "7"), ("-b", "64", "-ub", "16"), ("--no-mmap",)):
            self.assertEqual(text(*args), expected, args)

    def test_random_seed_is_reported(self):
        result = run("run", *MAX, "--show-timings", "hi")
        self.assertRegex(result.error, r"seed \d+")
        self.assertRegex(result.error,
                         r"\[ Prompt: [\d.]+ t/s \| Generation: [\d.]+ t/s \| cached 0 \| context \d+/1024 \]")

    def test_model_without_template_says_so(self):
        result = run("run", "-m", TINY_RAW, "-n", "2", "hi")
        self.assertEqual(result.code, 0, result)
        self.assertIn("no chat template", result.error)

    def test_s034_edge_values_of_the_samplers(self):
        values = {"--temp": ("-1", "0", "1e-9", "2", "1e9", "nan", "inf"), "--top-k": ("-1", "0", "1", "1000000000"),
                  "--top-p": ("-1", "0", "1e-9", "1", "1.5", "nan"), "--min-p": ("0", "1", "2"),
                  "--typical": ("0", "1"),
                  "--repeat-penalty": ("0", "-1", "1e-9"), "--mirostat": ("0", "1", "2", "3"),
                  "--dynatemp-range": ("1e9",), "--xtc-probability": ("1",), "--repeat-last-n": ("-1", "0", "1000000")}
        for flag, tried in values.items():
            for value in tried:
                result = run("run", *MAX, flag, value, "-s", "1", "hi")
                self.assertIn(result.code, (0, 1), (flag, value, result))
                if result.code == 1:
                    self.assert_error(result)
                self.assertEqual(result.text.encode(), result.out)
        greedy = run("run", *MAX, "--temp", "0", "hi").out
        for args in (("--top-k", "1"), ("--top-p", "0"), ("--min-p", "1")):
            self.assertEqual(run("run", *MAX, *args, "-s", "5", "hi").out, greedy, args)


if __name__ == "__main__":
    main()
