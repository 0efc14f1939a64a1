"""loci chat with input from a pipe: messages line by line, commands, saved conversations. Tiny model."""
import json
import os
import subprocess
import time
import unittest

from cli_testing import BINARY, TINY, TINY_RAW, TestCase, environment, main, run


def chat(text, *args, model=TINY):
    return run("chat", "-m", model, "-n", "6", "-s", "1", *args, stdin=text.encode(), timeout=30)


class EndOfInput(TestCase):
    def test_s067_last_line_without_newline_counts(self):
        result = chat("hi", "--show-timings")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.error.count("[ Prompt:"), 1, result)

    def test_s067_no_input(self):
        result = chat("")
        self.assertEqual((result.code, result.out, result.err), (0, b"", b""))

    def test_s067_empty_lines_are_no_messages(self):
        result = chat("\n\n  \n")
        self.assertEqual((result.code, result.out, result.err), (0, b"", b""))

    def test_s067_output_is_small_and_bare(self):
        result = chat("hi\nho\n")
        self.assertEqual(result.code, 0, result)
        self.assertLess(len(result.out) + len(result.err), 2000)
        self.assertNotIn(b"\x1b", result.err)
        self.assertNotIn(b"> ", result.err)

    def test_first_message_then_the_pipe(self):
        result = chat("two", "-p", "one", "--show-timings")
        self.assertEqual(result.error.count("[ Prompt:"), 2, result)

    def test_single_turn(self):
        result = chat("one\ntwo\n", "-st", "--show-timings")
        self.assertEqual(result.error.count("[ Prompt:"), 1, result)

    def test_a_message_that_does_not_fit_is_an_error_and_the_next_goes_on(self):
        result = chat("x" * 2000 + "\nhi\n", "--show-timings")
        self.assertEqual(result.code, 1, result)
        self.assertIn("1024", result.error)
        self.assertEqual(result.error.count("[ Prompt:"), 1, result)


class Messages(TestCase):
    def saved(self, text, *args, model=TINY):
        path = self.temporary("c.json")
        result = chat(text + "\n/save " + path + "\n", *args, model=model)
        with open(path) as file:
            return json.load(file), result

    def questions(self, text, *args, **kwargs):
        return [m["content"] for m in self.saved(text, *args, **kwargs)[0]["messages"][::2]]

    def test_lines_are_messages(self):
        self.assertEqual(self.questions("one\ntwo"), ["one", "two"])

    def test_windows_line_ends(self):
        self.assertEqual(self.questions("one\r\ntwo\r"), ["one", "two"])

    def test_block_in_quotes(self):
        self.assertEqual(self.questions('"""a\nb\\\n/c"""'), ["a\nb\\\n/c"])
        self.assertEqual(self.questions('"""\na\nb\n"""'), ["a\nb"])
        self.assertEqual(self.questions('"""/one"""'), ["/one"])

    def test_trailing_backslash_goes_on(self):
        self.assertEqual(self.questions("one\\\ntwo"), ["one\ntwo"])

    def test_trailing_slash_submits(self):
        self.assertEqual(self.questions("one/\ntwo"), ["one", "two"])

    def test_multiline_mode(self):
        self.assertEqual(self.questions("one\ntwo/\nthree\\", "-mli"), ["one\ntwo", "three"])
        self.assertEqual(self.questions("/multi\none\ntwo/\n/multi\nthree"), ["one\ntwo", "three"])

    def test_control_tokens_spelled_by_the_user_are_text(self):
        result = chat("hi<|im_end|>", "--verbose-prompt", "-n", "0")
        self.assertEqual(result.error.count("'<|im_end|>'"), 1, result)  # the template's own


class Commands(TestCase):
    def test_help_lists_every_command(self):
        result = chat("/help\n/?\n")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out, b"")
        for name in ("/exit", "/clear", "/regen", "/undo", "/save", "/load", "/system", "/set", "/show", "/stats",
                     "/read", "/glob", "/multi", "/think"):
            self.assertIn(name, result.error)

    def test_exit_quit_bye(self):
        for name in ("/exit", "/quit", "/bye"):
            result = chat(name + "\nhi\n", "--show-timings")
            self.assertEqual((result.code, result.out, result.err), (0, b"", b""))

    def test_unknown_command(self):
        result = chat("/frobnicate\n")
        self.assertEqual(result.code, 1)
        self.assertIn("error: unknown command /frobnicate", result.error)

    def test_media_are_not_supported(self):
        self.assertIn("not supported by this build", chat("/image x.png\n").error)

    def test_clear_undo_regen(self):
        path = self.temporary("c.json")
        chat("one\ntwo\n/undo\n/regen\n/save %s\n/clear\n/undo\n" % path)
        with open(path) as file:
            messages = json.load(file)["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertEqual(messages[0]["content"], "one")
        result = chat("one\n/clear\n/undo\n/regen\n")
        self.assertEqual(result.error.count("error: "), 2, result)

    def test_set_show(self):
        result = chat("/set temp 0.25\n/set top-k=9\n/set predict 3\n/set ctx 256\n/show\n")
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.error, r"temp +0\.25")
        self.assertRegex(result.error, r"top-k +9")
        self.assertRegex(result.error, r"predict +3")
        self.assertRegex(result.error, r"context +256 tokens")
        for bad in ("/set", "/set temp", "/set warmth 1", "/set top-k x", "/set top-p 7", "/set ctx -1"):
            result = chat(bad + "\n")
            self.assertEqual(result.code, 1, (bad, result))
            self.assertEqual(result.error.count("error: "), 1, (bad, result))

    def test_system_message(self):
        path = self.temporary("c.json")
        chat("/system Be brief.\nhi\n/save %s\n" % path, "-sys", "old")
        with open(path) as file:
            self.assertEqual(json.load(file)["system"], "Be brief.")

    def test_stats(self):
        result = chat("hi\n/stats\n")
        self.assertRegex(result.error, r"answers +1")

    def test_save_and_load_go_on_as_if_never_left(self):
        path = self.temporary("c.json")
        whole = chat("one\ntwo\n", "--temp", "1")
        first = chat("one\n/save %s\n" % path, "--temp", "1")
        second = chat("/load %s\ntwo\n" % path)
        self.assertEqual(first.out + second.out, whole.out)
        self.assertEqual(os.stat(path).st_mode & 0o111, 0)

    def test_load_refuses_what_is_no_conversation(self):
        for content in (b"", b"{}", b"[1]", b"\xff\xfe", b"GGUF", b'{"format":"loci-conversation","version":99}'):
            result = chat("/load %s\nhi\n" % self.temporary("bad.json", content))
            self.assertEqual(result.code, 1, result)
            self.assertEqual(result.error.count("error: "), 1, result)
        self.assertIn("/no/such.json", chat("/load /no/such.json\n").error)

    def test_read_and_glob_go_before_the_next_message(self):
        path = self.temporary("c.json")
        self.temporary("a.txt", "alpha")
        self.temporary("b.txt", "beta\n")
        folder = self.temporary()
        chat("/read %sa.txt\nhi\n/glob %s*.txt\nho\n/save %s\n" % (folder, folder, path))
        with open(path) as file:
            questions = [m["content"] for m in json.load(file)["messages"][::2]]
        self.assertEqual(questions[0], "--- File: %sa.txt ---\nalpha\nhi" % folder)
        self.assertIn("beta\nho", questions[1])
        self.assertIn("alpha\n---", questions[1])
        self.assertIn("error: /glob", chat("/glob /no/such/*.txt\n").error)

    def test_glob_takes_at_most_100_files(self):
        folder = self.temporary()
        for i in range(101):
            self.temporary("f%d.txt" % i, "x")
        self.assertIn("at most 100 files, found 101", chat("/glob %s*.txt\n" % folder).error)


class Cache(TestCase):
    def test_earlier_turns_are_not_evaluated_again(self):
        result = chat("hello there\nhow are you\n/regen\n", "--show-timings")
        cached = [int(part.split("cached ")[1].split()[0]) for part in result.error.splitlines() if "cached " in part]
        self.assertEqual(cached[0], 0, result)
        self.assertGreater(cached[1], 20, result)
        self.assertGreater(cached[2], cached[1], result)

    def test_a_miss_is_explained(self):
        result = chat("hello there\n/undo\nhello you\n/stats\n", "--show-timings")
        self.assertRegex(result.error, r'\[ Cache: differs at token \d+, after ".*hello": '
                                       r'the prompt has " you.*, the cache " there')
        self.assertRegex(result.error, r'last prompt: \d+ of \d+ tokens found; differs at token')
        self.assertNotIn("[ Cache:", chat("hello there\n/regen\n", "--show-timings").error)

    def test_prompt_cache_file(self):
        path = self.temporary("prompt.cache")

        def answer(*args):
            result = run("run", "-m", TINY, "-n", "6", "-s", "1", "--show-timings", "--prompt-cache", path, *args,
                         "hello")
            self.assertEqual(result.code, 0, result)
            return result.out, int(result.error.split("cached ")[1].split()[0])

        plain = run("run", "-m", TINY, "-n", "6", "-s", "1", "hello").out
        first, _ = answer()
        second, cached = answer("--prompt-cache-ro")
        self.assertEqual((first, second), (plain, plain))
        self.assertGreaterEqual(cached, 16)  # whole pages are kept
        with open(path, "r+b") as file:
            file.seek(100)
            file.write(b"\xff" * 8)
        third, cached = answer("--prompt-cache-ro")
        self.assertEqual((third, cached), (plain, 0))

    def test_prompt_cache_of_a_chat(self):
        path = self.temporary("chat.cache")
        chat("hello\n", "--prompt-cache", path)
        result = chat("hello\n", "--prompt-cache", path, "--show-timings")
        self.assertGreaterEqual(int(result.error.split("cached ")[1].split()[0]), 16, result)


class Session(TestCase):
    def cached(self, result):
        return [int(line.split("cached ")[1].split()[0]) for line in result.error.splitlines() if "[ Prompt" in line]

    def test_goes_on_where_it_ended(self):
        path = self.temporary("s.session")
        whole = chat("one\ntwo\nthree\n", "--show-timings", "--sys", "Be brief.")
        parts = [chat(text, "--show-timings", "--session", path, *system)
                 for text, system in (("one\n", ["--sys", "Be brief."]), ("two\n", []), ("three\n", []))]
        self.assertEqual(b"".join(p.out for p in parts), whole.out)
        for part in parts:
            self.assertEqual(part.code, 0, part)
        self.assertEqual([self.cached(p)[0] for p in parts], self.cached(whole))
        self.assertIn("goes on after 2 answers", parts[2].error)
        self.assertEqual(os.listdir(os.path.dirname(path)).count(os.path.basename(path)), 1)

    def test_every_answer_is_on_disk_before_the_next_question(self):
        path = self.temporary("s.session")
        process = subprocess.Popen([BINARY, "chat", "-m", TINY, "-n", "6", "-s", "1", "--session", path],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   env=environment())
        sizes = []
        for question in (b"one\n", b"two\n"):
            process.stdin.write(question)
            process.stdin.flush()
            deadline = time.monotonic() + 30
            size = before = 0
            # More than before, and no longer growing: it is being appended to.
            while time.monotonic() < deadline and not (size == before > (sizes[-1] if sizes else 0)):
                time.sleep(0.2)
                before, size = size, os.path.getsize(path) if os.path.exists(path) else 0
            sizes.append(size)
        process.kill()
        process.communicate()
        self.assertGreater(sizes[1], sizes[0])
        self.assertIn("goes on after 2 answers", chat("", "--session", path).error)

    def test_an_answer_is_appended_and_may_be_cut_off_anywhere(self):
        path = self.temporary("s.session")
        chat("one\ntwo\nthree\nfour\nfive\nsix\n", "--session", path)
        with open(path, "rb") as file:
            before = file.read()
        inode = os.stat(path).st_ino
        answer = chat("seven\n", "--session", path)
        with open(path, "rb") as file:
            after = file.read()
        self.assertEqual(os.stat(path).st_ino, inode)
        self.assertTrue(after.startswith(before))
        self.assertLess(len(after) - len(before), len(before) // 2)
        for cut in (len(before) + 1, len(before) + 40, (len(before) + len(after)) // 2, len(after) - 1):
            with open(path, "wb") as file:
                file.write(after[:cut])
            again = chat("seven\n", "--session", path)
            self.assertIn("its last save was cut off; the one before it is used", again.error)
            self.assertIn("goes on after 6 answers", again.error)
            self.assertEqual(again.out, answer.out)
            self.assertIn("goes on after 7 answers", chat("", "--session", path).error)

    def test_what_does_not_fit_is_refused_and_left_alone(self):
        path = self.temporary("s.session")
        fresh = chat("hello\n")
        chat("one\n", "--session", path)
        with open(path, "rb") as file:
            good = file.read()
        json_at = good.index(b'"one"')
        cases = [
            (good[:100], [], TINY, "only 100 bytes"),
            (good[:-1], [], TINY, "damaged: nothing but the beginning"),
            (good + b"\n", [], TINY, "checksum"),
            (good[:-300] + bytes([good[-300] ^ 4]) + good[-299:], [], TINY, "checksum"),
            (good[:json_at + 2] + b"O" + good[json_at + 3:], [], TINY, "checksum"),
            (good[:8] + b"\x07" + good[9:], [], TINY, "expected version 2 or 3, found 7"),
            (b"a letter\n" * 100, [], TINY, "not a cache file"),
            (good, [], TINY_RAW, "made with another model"),
            (good, ["-ctk", "f32"], TINY, "expected K/V formats"),
            (good, ["--kv-page-size", "32"], TINY, "expected page size 32, found 16"),
        ]
        for content, args, model, reason in cases:
            with open(path, "wb") as file:
                file.write(content)
            result = chat("hello\n", "--session", path, *args, model=model)
            self.assertEqual(result.code, 0, result)
            self.assertIn(reason, result.error)
            self.assertIn("this chat is not saved", result.error)
            if model == TINY and "-ctk" not in args:
                self.assertEqual(result.out, fresh.out)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), content, reason)

    def test_a_file_that_somebody_else_wrote_meanwhile_is_left_alone(self):
        path = self.temporary("s.session")
        process = subprocess.Popen([BINARY, "chat", "-m", TINY, "-n", "6", "--session", path], stdin=subprocess.PIPE,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment())
        process.stdin.write(b"one\n")
        process.stdin.flush()
        deadline = time.monotonic() + 30
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        chat("two\nthree\n", "--session", path)
        with open(path, "rb") as file:
            theirs = file.read()
        error = process.communicate(b"four\nfive\n", timeout=30)[1].decode()
        self.assertEqual(error.count("changed by somebody else"), 1, error)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), theirs)

    def test_a_place_that_cannot_be_written_is_told(self):
        result = chat("hello\n", "--session", "/no/such/folder/file")
        self.assertEqual(result.code, 0, result)
        self.assertIn("/no/such/folder/file: cannot write the cache file: No such file", result.error)

    def test_undo_and_clear_are_kept(self):
        path = self.temporary("s.session")
        chat("one\ntwo\n/undo\n", "--session", path)
        self.assertIn("goes on after 1 answer\n", chat("/clear\n", "--session", path).error)
        self.assertIn("goes on after 0 answers", chat("", "--session", path).error)


class Raw(TestCase):
    def test_text_goes_on_from_message_to_message(self):
        path = self.temporary("c.json")
        result = chat("abc\ndef\n/save %s\n" % path, model=TINY_RAW)
        self.assertEqual(result.code, 0, result)
        with open(path) as file:
            self.assertEqual([m["content"] for m in json.load(file)["messages"][::2]], ["abc", "def"])

    def test_prefix_suffix_and_newline_in_interactive_completion(self):
        path = self.temporary("c.json")
        chat("abc\n/save %s\n" % path, "-no-cnv", "-i", "--in-prefix", "<", "--in-suffix", ">")
        with open(path) as file:
            self.assertEqual(json.load(file)["messages"][0]["content"], "<abc\n>")

    def test_reverse_prompt_ends_the_answer_and_stays_in_the_text(self):
        # Every answer of the tiny model holds some byte: its first character is the reverse prompt.
        first = chat("", "-no-cnv", "-p", "abc", "--temp", "0", model=TINY_RAW).text
        stop = first[1]
        path = self.temporary("c.json")
        result = chat("/save %s\n" % path, "-no-cnv", "-i", "-p", "abc", "--temp", "0", "-r", stop, model=TINY_RAW)
        with open(path) as file:
            answer = json.load(file)["messages"][1]["content"]
        self.assertEqual(answer, first[:first.index(stop) + 1], result)

    def test_transcript(self):
        path = self.temporary("t.txt")
        result = chat("hi\n", "-o", path)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"> hi\n\n" + result.out.rstrip(b"\n") + b"\n\n")


if __name__ == "__main__":
    main()
