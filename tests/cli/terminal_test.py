"""loci chat and run on a pseudo-terminal: Ctrl-C, Ctrl-D, line editing, history, paste. Needs SmolLM2."""
import json
import os
import signal
import stat
import unittest

from cli_testing import SMOLLM2, TestCase, Terminal, environment, main, needs, run

CHAT = ("chat", "-m", SMOLLM2, "-n", "16", "-s", "1", "-c", "2048")
LONG_ANSWER = ("chat", "-m", SMOLLM2, "-s", "1", "-c", "4096", "--ignore-eos")


@needs(SMOLLM2)
class Interrupts(TestCase):
    def left_cleanly(self, terminal, code, timeout=10):
        self.assertEqual(terminal.wait(timeout), code, terminal.seen[-2000:])
        self.assertTrue(terminal.modes_restored())
        self.assertTrue(terminal.colours_reset(), terminal.seen[-500:])

    def test_s068_while_loading(self):
        with Terminal(*LONG_ANSWER, "--no-mmap") as terminal:
            terminal.expect("loading")
            terminal.interrupt()
            self.left_cleanly(terminal, 130)

    def test_s068_while_the_prompt_is_evaluated(self):
        path = self.temporary("long.txt", "word " * 3500)
        with Terminal(*LONG_ANSWER, "-ub", "64", "-f", path) as terminal:
            terminal.expect(r"prompt \[")
            terminal.interrupt()
            terminal.expect("stopped before the answer began", 30)
            terminal.prompt()
            terminal.line("/show")
            terminal.expect(r"messages  0")
            terminal.prompt()
            terminal.interrupt()
            self.left_cleanly(terminal, 130)

    def test_s068_while_generating_keeps_the_answer_so_far(self):
        path = self.temporary("c.json")
        with Terminal(*LONG_ANSWER) as terminal:
            terminal.prompt()
            terminal.line("Tell me a long story.")
            terminal.expect("story")
            terminal.expect(r"\n.{60}")
            terminal.interrupt()
            terminal.expect(r"\[ Prompt: ")
            terminal.prompt()
            terminal.line("/save " + path)
            terminal.expect("saved")
            terminal.prompt()
            terminal.line("Go on.")  # the history is usable
            terminal.expect(r"Go on\..*\n.{20}")
            terminal.interrupt()
            cached = terminal.expect(r"cached (\d+) ")
            self.assertGreater(int(cached.group(1)), 30)
            terminal.prompt()
            terminal.interrupt()
            self.left_cleanly(terminal, 130)
        with open(path) as file:
            messages = json.load(file)["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant"])
        self.assertGreater(len(messages[1]["content"]), 20)

    def test_s068_at_the_prompt(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.send("half a line")
            terminal.expect("half a line")
            terminal.interrupt()
            self.left_cleanly(terminal, 130)

    def test_s068_twice_within_100_ms(self):
        with Terminal(*LONG_ANSWER) as terminal:
            terminal.prompt()
            terminal.line("Tell me a long story.")
            terminal.expect(r"story.*\n.{30}")
            terminal.interrupt_twice(0.05)
            self.left_cleanly(terminal, 130, 3)

    def test_s068_twice_while_the_prompt_is_evaluated(self):
        path = self.temporary("long.txt", "word " * 3500)
        with Terminal(*LONG_ANSWER, "-f", path) as terminal:
            terminal.expect(r"prompt \[")
            terminal.interrupt_twice(0.02)
            self.left_cleanly(terminal, 130, 5)

    def test_termination_restores_the_terminal(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.process.send_signal(signal.SIGTERM)
            self.left_cleanly(terminal, 128 + signal.SIGTERM)

    def test_run_interrupted_exits_130(self):
        with Terminal("run", "-m", SMOLLM2, "--ignore-eos", "-s", "1", "Tell me a long story.") as terminal:
            terminal.expect(r".{60}")
            terminal.interrupt()
            self.left_cleanly(terminal, 130)

    def test_terminal_modes_survive_a_stop(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.process.send_signal(signal.SIGSTOP)
            terminal.process.send_signal(signal.SIGCONT)
            terminal.line("/exit")
            self.left_cleanly(terminal, 0)


@needs(SMOLLM2)
class Typing(TestCase):
    def asked(self, terminal, path):
        terminal.prompt()
        terminal.line("/save " + path)
        terminal.expect("saved: ")
        with open(path) as file:
            return [m["content"] for m in json.load(file)["messages"][::2]]

    def test_s067_ctrl_d_on_an_empty_line(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.send(b"\x04")
            self.assertEqual(terminal.wait(5), 0)
            self.assertTrue(terminal.modes_restored())
            self.assertLess(len(terminal.seen), 3000)

    def test_s067_ctrl_d_after_text(self):
        with Terminal(*CHAT, "--simple-io") as terminal:
            terminal.expect("> ")
            terminal.send(b"hi\x04\x04")  # without an end of line: the second one ends the input
            terminal.expect(r"\[ Prompt: ")
            self.assertEqual(terminal.wait(5), 0)

    def test_bracketed_paste_is_one_message(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.send("\x1b[200~line one\nline two\n\nline four\x1b[201~\r")
            terminal.expect(r"\[ Prompt: ")
            self.assertEqual(self.asked(terminal, self.temporary("c.json")), ["line one\nline two\n\nline four"])

    def test_line_editing(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            # home, X, end, Y; back one word; kill to the end; letters of two columns and combining marks deleted whole
            terminal.send("ab cd\x01X\x05Y\x1bb\x0b" + "漢e\u0301\x7f\x7f" + "\r")
            terminal.expect(r"\[ Prompt: ")
            asked = self.asked(terminal, self.temporary("c.json"))
        self.assertIn(asked, (["Xab "], ["Xab 漢"]))  # readline takes a combining mark with or after its letter

    def test_history_is_kept_and_private(self):
        state = self.temporary()
        env = environment(XDG_STATE_HOME=state)
        with Terminal(*CHAT, env=env) as terminal:
            terminal.prompt()
            terminal.send("\x1b[200~first line\nsecond line\x1b[201~\r")
            terminal.expect(r"\[ Prompt: ")
            terminal.prompt()
            terminal.line("/exit")
            self.assertEqual(terminal.wait(), 0)
        path = os.path.join(state, "loci", "history")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with Terminal(*CHAT, env=env) as terminal:
            terminal.prompt()
            terminal.send("\x1b[A\x1b[A\r")  # up over /exit
            terminal.expect(r"\[ Prompt: ")
            self.assertEqual(self.asked(terminal, self.temporary("c.json")), ["first line\nsecond line"])

    def test_commands_and_file_names_are_completed(self):
        path = self.temporary("unmistakable.txt", "x")
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.send("/hel\t\r")
            terminal.expect("this list")
            terminal.prompt()
            terminal.send("/read " + path[:-12] + "\t\r")
            terminal.expect("read: .*unmistakable.txt, 1 B")

    def test_quotes_on_the_terminal(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.line('"""one')
            terminal.line('two"""')
            terminal.expect(r"\[ Prompt: ")
            self.assertEqual(self.asked(terminal, self.temporary("c.json")), ["one\ntwo"])

    def test_banner_colours_and_timings(self):
        with Terminal(*CHAT, "-p", "x" * 600) as terminal:
            terminal.expect(r"model .*(?i:smollm2)")
            terminal.expect(r"/help")
            terminal.expect("> x{500}\\.\\.\\. \\(600 bytes\\)")
            terminal.expect(r"\[ Prompt: [\d.]+ t/s \| Generation: [\d.]+ t/s \| cached \d+ \| context \d+/2048 \]")
            terminal.prompt()
            self.assertIn(b"\x1b[2m", terminal.seen)
        with Terminal(*CHAT, "-st", "-p", "hi", env=environment(NO_COLOR="1")) as terminal:
            self.assertEqual(terminal.wait(), 0)
            self.assertNotIn(b"m[ Prompt", terminal.seen)

    def test_a_new_window_size_disturbs_nothing(self):
        with Terminal(*CHAT) as terminal:
            terminal.prompt()
            terminal.send("half a ")
            terminal.expect("half a ")
            terminal.resize(30)
            terminal.line("line that is longer than the window")
            terminal.expect(r"\[ Prompt: ")
            self.assertEqual(self.asked(terminal, self.temporary("c.json")),
                             ["half a line that is longer than the window"])

    def test_run_without_a_prompt(self):
        with Terminal("run", "-m", SMOLLM2) as terminal:
            terminal.expect("error: no prompt")
            self.assertEqual(terminal.wait(), 1)

    def test_single_turn_leaves(self):
        with Terminal(*CHAT, "-st", "-p", "hi") as terminal:
            self.assertEqual(terminal.wait(), 0)
            self.assertTrue(terminal.modes_restored())


if __name__ == "__main__":
    main()
