"""Answers of real models through loci run."""
import unittest

from cli_testing import GEMMA, SMOLLM2, TestCase, main, needs, run

QUESTION = ("run", "-m", SMOLLM2, "-n", "24", "--temp", "0")


@needs(SMOLLM2)
class SmolLM2(TestCase):
    def test_answers_with_its_template(self):
        result = run(*QUESTION, "Tell me the capital of France.")
        self.assertEqual(result.code, 0, result)
        self.assertIn("Paris", result.text)
        self.assertTrue(result.out.endswith(b"\n"))
        self.assertNotIn(b"<|im", result.out)

    def test_the_default_model_is_smollm2(self):
        expected = run(*QUESTION, "Say hi.").out
        self.assertEqual(run("run", "-n", "24", "--temp", "0", "Say hi.").out, expected)
        self.assertEqual(run("run", "-m", "smollm2", "-n", "24", "--temp", "0", "Say hi.").out, expected)

    def test_s022_stops_by_itself(self):
        for args in ((), ("-r", "<|im_end|>")):
            result = run("run", "-m", SMOLLM2, "-n", "100", "--temp", "0", *args, "--show-timings",
                         "Answer with one word: what colour is the sky?")
            self.assertEqual(result.code, 0, result)
            self.assertNotIn("<|im_end|>", result.text)
            used = int(result.error.split("context ")[1].split("/")[0])
            self.assertLess(used, 140, result)  # not run on to the limit

    def test_s031_greedy_is_the_same_every_time(self):
        expected = run(*QUESTION, "Name three animals.").out
        for args in ((), ("-t", "1"), ("-t", "2"), ("-ub", "5"), ("-s", "99")):
            self.assertEqual(run(*QUESTION, *args, "Name three animals.").out, expected, args)

    def test_reverse_prompt_stops(self):
        whole = run(*QUESTION, "-no-cnv", "The capital of France is").text
        word = whole.split()[1]
        result = run(*QUESTION, "-no-cnv", "-r", word, "The capital of France is").text
        self.assertEqual(result, whole[:whole.index(word)])

    def test_system_message_and_template_choice_change_the_prompt(self):
        def n_prompt(*args):
            result = run(*QUESTION, "-n", "0", "--verbose-prompt", *args, "hi")
            self.assertEqual(result.code, 0, result)
            return result.error.count(" -> '")

        self.assertNotEqual(n_prompt(), n_prompt("-sys", "You are terse."))
        self.assertNotEqual(n_prompt(), n_prompt("--chat-template", "llama2"))
        self.assertEqual(n_prompt("-no-cnv"), 1)
        self.assert_error(run(*QUESTION, "--chat-template", "no-such", "hi"), "no-such")
        self.assert_error(run(*QUESTION, "--chat-template", "{% if", "hi"))

    def test_special_shows_control_tokens(self):
        self.assertIn("<|im_end|>", run(*QUESTION, "-sp", "-n", "100", "Say hi.").text)


@needs(GEMMA)
class Gemma(TestCase):
    def test_a_base_model_continues_the_text(self):
        result = run("run", "-m", GEMMA, "-n", "8", "--temp", "0", "The capital of France is")
        self.assertEqual(result.code, 0, result)
        self.assertTrue(result.text.startswith(" the capital of"), result)  # as in the golden
        self.assertIn("no chat template", result.error)


if __name__ == "__main__":
    main()
