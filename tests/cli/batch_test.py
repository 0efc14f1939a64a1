"""loci batch on a tiny model: shapes, errors a line, resuming after kill -9, interrupts, hostile input."""
import json
import os
import random
import re
import signal
import subprocess
import time

from cli_testing import BINARY, TINY, TINY_RAW, Terminal, TestCase, environment, main, run

FAST = ("-m", TINY, "-n", "12", "-t", "1", "--temp", "0")


def chat_line(custom_id, text, **body):
    body.setdefault("messages", [{"role": "user", "content": text}])
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body})


def text_line(custom_id, prompt, **body):
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": "/v1/completions",
                       "body": dict(body, prompt=prompt)})


def lines_of(path):
    data = read(path)
    assert data == b"" or data.endswith(b"\n"), data[-200:]
    return [json.loads(line) for line in data.splitlines()]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def answer_of(result):
    """A result without what may differ between runs: time, and what was found in the cache."""
    result = json.loads(json.dumps(result))
    if result["error"] is None:
        body = result["response"]["body"]
        del body["created"], body["timings"], body["usage"]["prompt_tokens_details"]
    return result


def answers_of(path):
    answers = {}
    for result in lines_of(path):
        assert result["custom_id"] not in answers, result["custom_id"]
        answers[result["custom_id"]] = answer_of(result)
    return answers


class BatchCase(TestCase):
    def batch(self, text, *args, flags=FAST, name="out.jsonl", code=0):
        """Runs `text` as input; returns the results by custom_id and what was said."""
        source = self.temporary("in.jsonl", text)
        out = self.temporary(name)
        result = run("batch", *flags, "-i", source, "-o", out, *args)
        self.assertEqual(result.code, code, result)
        self.assertEqual(result.out, b"", result)
        return {r["custom_id"]: r for r in lines_of(out)}, result.error


class Shapes(BatchCase):
    def test_an_answer_has_the_shape_of_openai(self):
        results, said = self.batch(chat_line("a", "Hello", model="gpt-x") + "\n" + text_line("b", "Once") + "\n")
        self.assertEqual(list(results["a"]), ["id", "custom_id", "response", "error"])
        self.assertTrue(results["a"]["id"].startswith("batch_req_"))
        self.assertIsNone(results["a"]["error"])
        response = results["a"]["response"]
        self.assertEqual(list(response), ["status_code", "request_id", "body"])
        self.assertEqual(response["status_code"], 200)
        body = response["body"]
        self.assertEqual(body["object"], "chat.completion")
        self.assertRegex(body["id"], r"^chatcmpl-[0-9a-zA-Z]{32}$")
        self.assertEqual(body["model"], "tiny")
        self.assertRegex(body["system_fingerprint"], r"^loci-")
        self.assertAlmostEqual(body["created"], time.time(), delta=600)
        [choice] = body["choices"]
        self.assertEqual((choice["index"], choice["message"]["role"]), (0, "assistant"))
        self.assertIsInstance(choice["message"]["content"], str)
        self.assertIn(choice["finish_reason"], ("stop", "length"))
        self.assertIsNone(choice["logprobs"])
        usage = body["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertIn("cached_tokens", usage["prompt_tokens_details"])
        timings = body["timings"]
        self.assertEqual(timings["cache_n"] + timings["prompt_n"], usage["prompt_tokens"])
        self.assertEqual(timings["predicted_n"], usage["completion_tokens"])
        body = results["b"]["response"]["body"]
        self.assertEqual(body["object"], "text_completion")
        self.assertIsInstance(body["choices"][0]["text"], str)
        self.assertIn("batch: 2 answered, 0 failed", said)
        self.assertRegex(said, r"tokens: \d+ of prompts, [\d.]+ % of them from the cache; \d+ generated")
        self.assertRegex(said, r"K/V: [\d.]+ % of the allocated slots wasted \(at the peak [\d.]+ %\); "
                         r"[\d.]+ .iB read, [\d.]+ .iB per generated token; prefixes: ")

    def test_scheduling_fields_change_no_answer(self):
        def lines(**fields):
            return "\n".join(text_line(str(i), "abc " * (i + 1), ignore_eos=True, **fields) for i in range(4))

        def texts(results):
            return {k: v["response"]["body"]["choices"][0]["text"] for k, v in results.items()}

        plain = texts(self.batch(lines(), name="plain.jsonl")[0])
        for i, fields in enumerate(({"priority": 3}, {"priority": -2, "timeout": 1000},
                                    {"speculative.type": "ngram", "speculative.n_max": 4, "speculative.n_min": 1,
                                     "speculative.p_min": 0.1, "speculative.adaptive": False})):
            self.assertEqual(texts(self.batch(lines(**fields), name="f%d.jsonl" % i)[0]), plain, fields)
        drafted, said = self.batch(lines(), "--spec-type", "ngram", "--no-spec-adaptive", "-v", name="spec.jsonl")
        self.assertEqual(texts(drafted), plain)
        self.assertIn("drafts accepted", said)

    def test_a_line_that_is_late_fails_and_can_be_run_again(self):
        source = self.temporary("in.jsonl", text_line("late", "abc", max_tokens=900, ignore_eos=True, timeout=0.002) +
                                "\n" + text_line("good", "abc", max_tokens=4) + "\n")
        out = self.temporary("out.jsonl")
        args = ("batch", "-m", TINY, "-t", "1", "-i", source, "-o", out)
        result = run(*args)
        self.assertEqual(result.code, 1, result)
        late = {r["custom_id"]: r for r in lines_of(out)}["late"]
        self.assertEqual(late["error"]["code"], "request_timeout")
        self.assertEqual(late["error"]["message"], "the answer was not ready after 0.002 s")
        self.assertEqual(late["response"]["status_code"], 408)
        self.assertIn("1 answered, 1 failed", result.error)
        # The flag is the default of lines that state none.
        slow = self.temporary("slow.jsonl", text_line("slow", "abc", max_tokens=900, ignore_eos=True) + "\n")
        result = run("batch", "-m", TINY, "-t", "1", "-i", slow, "-o", self.temporary("slow.out"),
                     "--request-timeout", "0.002")
        self.assertEqual(result.code, 1, result)

    def test_scheduling_fields_with_wrong_values_name_the_field(self):
        bad = {"priority": ("high", 1.5, 10**9), "timeout": ("1", 0, -1, 1e9),
               "speculative.type": (1, "fast", "draft", "draft-eagle3"), "speculative.n_max": (-1, 65, "4"),
               "speculative.n_min": (17, -1), "speculative.p_min": (1.5, -0.1, "x"), "speculative.tree": (0, 9),
               "speculative.adaptive": (1,), "speculative.shared": ("no",)}
        cases = [(name, value) for name, values in bad.items() for value in values]
        text = "\n".join(text_line(str(i), "x", **{name: value}) for i, (name, value) in enumerate(cases))
        results, _ = self.batch(text, code=1)
        for i, (name, value) in enumerate(cases):
            self.assertTrue(results[str(i)]["error"]["message"].startswith("Field '%s': " % name),
                            (name, value, results[str(i)]))

    def test_answers_are_those_of_run(self):
        results, _ = self.batch(text_line("b", "Once upon a time"))
        alone = run("run", *FAST, "-no-cnv", "Once upon a time")
        self.assertEqual(results["b"]["response"]["body"]["choices"][0]["text"], alone.text)

    def test_fields_of_the_body_count(self):
        results, _ = self.batch("\n".join([
            text_line("short", "abc", max_tokens=3, ignore_eos=True),
            text_line("shorter", "abc", max_completion_tokens=2, max_tokens=9, ignore_eos=True),
            text_line("none", "abc", max_tokens=0),
            text_line("many", "abc", n=3, temperature=1, seed=5, ignore_eos=True),
            text_line("seed6", "abc", temperature=1, seed=6, ignore_eos=True),
            text_line("two", ["abc", "xyz"], ignore_eos=True),
            text_line("ids", [97, 98, 99], ignore_eos=True),
            text_line("echo", "abc", echo=True, max_tokens=1, ignore_eos=True),
            text_line("probs", "abc", logprobs=2, max_tokens=4, ignore_eos=True),
            text_line("only", "abc", logit_bias={"98": 100}, max_tokens=4),
            chat_line("chatprobs", "hi", logprobs=True, top_logprobs=3, max_tokens=4, ignore_eos=True),
            chat_line("prefill", "", messages=[{"role": "user", "content": "hi"},
                                               {"role": "assistant", "content": "Well, "}]),
        ]))
        bodies = {k: v["response"]["body"] for k, v in results.items()}
        self.assertEqual(bodies["short"]["usage"]["completion_tokens"], 3)
        self.assertEqual(bodies["short"]["choices"][0]["finish_reason"], "length")
        self.assertEqual(bodies["shorter"]["usage"]["completion_tokens"], 2)
        self.assertEqual(bodies["none"]["usage"]["completion_tokens"], 0)
        self.assertEqual(bodies["none"]["choices"][0]["text"], "")
        many = [c["text"] for c in bodies["many"]["choices"]]
        self.assertEqual([c["index"] for c in bodies["many"]["choices"]], [0, 1, 2])
        self.assertEqual(len(set(many)), 3)
        self.assertEqual(many[1], bodies["seed6"]["choices"][0]["text"])
        self.assertEqual(bodies["many"]["usage"]["prompt_tokens"], 3)
        self.assertEqual(bodies["many"]["usage"]["completion_tokens"], 36)
        self.assertEqual(len(bodies["two"]["choices"]), 2)
        self.assertEqual(bodies["ids"]["usage"]["prompt_tokens"], 3)
        self.assertTrue(bodies["echo"]["choices"][0]["text"].startswith("abc"))
        content = bodies["probs"]["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(content), 4)
        for entry in content + bodies["chatprobs"]["choices"][0]["logprobs"]["content"]:
            self.assertEqual(entry["id"], entry["top_logprobs"][0]["id"])  # greedy
            self.assertLessEqual(entry["logprob"], 0)
            self.assertIsInstance(entry["bytes"], list)
        self.assertEqual({len(e["top_logprobs"]) for e in content}, {2})
        only = bodies["only"]["choices"][0]["text"]
        self.assertEqual(len(set(only)), 1, only)

    def test_bare_bodies_and_plain_prompts(self):
        results, _ = self.batch('{"prompt":"abc"}\n{"messages":[{"role":"user","content":"hi"}],"custom_id":"mine"}\n')
        kinds = {k: v["response"]["body"]["object"] for k, v in results.items()}
        self.assertEqual(kinds.pop("mine"), "chat.completion")
        [(made_up, kind)] = kinds.items()
        self.assertRegex(made_up, r"^request-1-[0-9a-f]{8}$")
        self.assertEqual(kind, "text_completion")
        results, _ = self.batch("first prompt\n{second} prompt\n", name="text.jsonl")
        self.assertEqual({v["response"]["body"]["object"] for v in results.values()}, {"chat.completion"})
        raw, _ = self.batch("first prompt\n", "-no-cnv", name="raw.jsonl")
        [answer] = raw.values()
        self.assertEqual(answer["response"]["body"]["object"], "text_completion")
        forced, _ = self.batch('{"prompt":"abc"}\n', "--input-format", "text", name="forced.jsonl")
        self.assertEqual([v["response"]["body"]["object"] for v in forced.values()], ["chat.completion"])
        results, _ = self.batch("hi\n", "-m", TINY_RAW, name="no-template.jsonl")
        self.assertEqual([v["response"]["body"]["object"] for v in results.values()], ["text_completion"])

    def test_s070_line_ends(self):
        prompts = ["first prompt", "second prompt", "third \u00e9"]
        texts = {name: end.join(prompts) + end for name, end in (("lf", "\n"), ("crlf", "\r\n"), ("cr", "\r"))}
        texts["bom"] = "\ufeff" + texts["lf"]
        texts["mixed"] = "first prompt\r\nsecond prompt\n\r\n\nthird \u00e9"
        answers = {}
        for name, text in texts.items():
            results, _ = self.batch(text, "--temp", "1", name=name + ".jsonl")
            answers[name] = {k: v["response"]["body"]["choices"] for k, v in results.items()}
            self.assertEqual(len(answers[name]), 3)
            self.assertEqual(answers[name], answers["lf"], name)

    def test_streams_and_positional_files(self):
        text = text_line("a", "abc") + "\n"
        piped = run("batch", *FAST, stdin=text.encode())
        self.assertEqual(piped.code, 0, piped)
        source, out = self.temporary("p.jsonl", text), self.temporary("p.out")
        self.assertEqual(run("batch", *FAST, source, out).code, 0)
        self.assertEqual(answer_of(json.loads(piped.out)), answer_of(lines_of(out)[0]))

    def test_a_slow_pipe_is_answered_as_it_comes(self):
        process = subprocess.Popen([BINARY, "batch", *FAST, "-i", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, env=environment())
        self.addCleanup(process.kill)
        for custom_id in ("a", "b"):
            process.stdin.write((text_line(custom_id, "abc") + "\n").encode())
            process.stdin.flush()
            self.assertEqual(json.loads(process.stdout.readline())["custom_id"], custom_id)
        process.stdin.close()
        self.assertEqual(process.wait(60), 0)
        process.stdout.close()


class SameTokens(BatchCase):
    def test_alone_and_in_company(self):
        generator = random.Random(3)
        shared = "The quick brown fox jumps over the lazy dog. " * 4
        lines = []
        for i in range(24):
            prompt = (shared if i % 3 else "") + "".join(generator.choice("abcdef ghij") for _ in range(1 + i * 5))
            lines.append(text_line("r%d" % i, prompt, temperature=i % 2, seed=i, max_tokens=generator.randrange(1, 30),
                                   n=1 + i % 5 // 3))
        text = "\n".join(lines)
        whole = {}
        for name, args in {"one": ("-np", "1"), "eight": ("-np", "8"), "small": ("-np", "8", "-ub", "7", "-c", "512"),
                           "threads": ("-np", "3", "-t", "2")}.items():
            results, _ = self.batch(text, *args, name=name + ".jsonl")
            whole[name] = {k: v["response"]["body"]["choices"] for k, v in results.items()}
            self.assertEqual(whole[name], whole["one"], name)
        for i in (0, 7, 23):
            alone, _ = self.batch(lines[i], name="alone%d.jsonl" % i)
            self.assertEqual(alone["r%d" % i]["response"]["body"]["choices"], whole["one"]["r%d" % i])

    def test_without_a_seed_a_line_has_one_of_its_own(self):
        text = "\n".join(text_line(i, "abc") for i in ("a", "b"))
        first, _ = self.batch(text, "--temp", "1", name="1.jsonl")
        again, _ = self.batch(text, "--temp", "1", name="2.jsonl")
        texts = [first[i]["response"]["body"]["choices"][0]["text"] for i in ("a", "b")]
        self.assertEqual(texts, [again[i]["response"]["body"]["choices"][0]["text"] for i in ("a", "b")])
        self.assertNotEqual(texts[0], texts[1])

    def test_shared_beginnings_are_computed_once(self):
        shared = ["%s: %s" % (name, name * 60) for name in ("red", "green", "blue")]
        lines = [text_line("%d-%d" % (i, k), shared[k] + " question %d" % i) for i in range(8) for k in range(3)]
        _, said = self.batch("\n".join(lines), "-np", "1")
        share = float(re.search(r"([\d.]+) % of them from the cache", said).group(1))
        self.assertGreater(share, 60, said)


class Errors(BatchCase):
    def fails(self, line, code, *parts, status=400, flags=FAST):
        results, said = self.batch(line + "\n" + text_line("good", "abc") + "\n", flags=flags, code=1,
                                   name="errors-%d.jsonl" % random.randrange(1 << 60))
        self.assertIsNone(results.pop("good")["error"], results)
        [result] = results.values()
        self.assertEqual(result["error"]["code"], code, result)
        self.assertEqual(result["response"]["status_code"], status)
        self.assertEqual(result["response"]["body"]["error"]["message"], result["error"]["message"])
        for part in parts:
            self.assertIn(part, result["error"]["message"])
        self.assertIn("batch: 1 answered, 1 failed", said)
        return result

    def test_lines_that_are_no_request(self):
        self.fails('{"custom_id": "x", ', "invalid_json", "line 1", "JSON")
        self.fails('{"custom_id": 7, "url": "/v1/completions", "body": {}}', "invalid_custom_id", "custom_id")
        self.fails('{"custom_id": "x"}', "invalid_request", "custom_id, url and body")
        self.fails('{"custom_id": "x", "url": "/v1/completions"}', "invalid_request", "'body' is required")
        self.fails('{"custom_id": "x", "body": {"prompt": "a"}}', "invalid_request", "'url' is required")
        self.fails('{"custom_id": "x", "method": "GET", "url": "/v1/completions", "body": {"prompt": "a"}}',
                   "invalid_request", "POST")
        self.fails('{"custom_id": "x", "url": "/v1/embeddings", "body": {"input": "a"}}', "unsupported_url",
                   "/v1/chat/completions", "/v1/completions", "/v1/embeddings")
        self.fails('{"custom_id": "x", "url": "/v1/completions", "body": 3}', "invalid_request_error", "object")
        # The first line tells the format, so this one is JSON as well.
        results, _ = self.batch(text_line("a", "abc") + "\nplain words\n[1]\n", code=1)
        self.assertEqual(sorted(r["error"]["code"] for r in results.values() if r["error"]), ["invalid_json"] * 2)

    def test_bodies_that_are_wrong(self):
        def body(**fields):
            return text_line("x", fields.pop("prompt", "abc"), **fields)

        for field, value in {"temperature": "hot", "top_k": 1.5, "top_p": 2, "max_tokens": -2, "n": 0, "seed": -7,
                             "stop": [1], "logit_bias": {"99999": 1}, "samplers": ["nope"], "min_p": -1,
                             "mirostat": 3, "repeat_penalty": 0, "echo": "yes", "top_logprobs": -1}.items():
            self.fails(body(**{field: value}), "invalid_request_error", "Field '%s'" % field)
        self.fails(text_line("x", ""), "invalid_request_error", "Field 'prompt'")
        self.fails(text_line("x", [1, 99999]), "invalid_request_error", "Field 'prompt'")
        self.fails(json.dumps({"custom_id": "x", "url": "/v1/completions", "body": {}}), "invalid_request_error",
                   "'prompt' is required")
        self.fails(chat_line("x", "", messages="hi"), "invalid_request_error", "Expected 'messages' to be an array")
        self.fails(chat_line("x", "", messages=[{"role": "user"}]), "invalid_request_error",
                   "All non-assistant messages must contain 'content'")
        self.fails(chat_line("x", "hi", top_logprobs=2), "invalid_request_error",
                   "top_logprobs requires logprobs to be set to true")
        self.fails(body(stream=True), "invalid_request_error", "Field 'stream'")
        for field, value in {"grammar": "root ::= [", "json_schema": {"not": {}}, "guided_regex": "(",
                             "response_format": {"type": "json_schema", "json_schema": {"schema": False}}}.items():
            self.fails(body(**{field: value}), "invalid_request_error", "Field '%s'" % field)
        for field, value in {"tools": [{"type": "function"}], "lora": [{"id": 0}], "suffix": "end", "best_of": 4,
                             "t_max_predict_ms": 5}.items():
            self.fails(body(**{field: value}), "not_supported_error", "Field '%s'" % field, status=501)
        self.fails(chat_line("x", "hi"), "not_supported_error", "no chat template", status=501,
                   flags=("-m", TINY_RAW, *FAST[2:]))

    def test_tools_need_a_dialect(self):
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        chatml = (*FAST, "--chat-template", "chatml")
        self.fails(chat_line("x", "hi", tools=tools), "not_supported_error", "Field 'tools'", "--tool-dialect",
                   status=501, flags=chatml)
        line = chat_line("x", "hi", tools=tools) + "\n"
        results, _ = self.batch(line, flags=(*chatml, "--tool-dialect", "hermes"))
        self.assertIsNone(results["x"]["error"])
        self.fails(chat_line("x", "hi", tools=tools, tool_choice="required"), "not_supported_error",
                   "Field 'tool_choice'", status=501, flags=(*chatml, "--tool-dialect", "hermes"))
        self.assert_error(run("batch", *FAST, "--tool-dialect", "elvish", "-i", self.temporary("in.jsonl", line)),
                          "--tool-dialect: expected one of", "hermes", "'elvish'")

    def test_null_and_unknown_fields_are_ignored(self):
        results, _ = self.batch(text_line("x", "abc", temperature=None, stop=None, n=None, user="me", store=True,
                                          tools=[], response_format={"type": "text"}))
        self.assertIsNone(results["x"]["error"])

    def test_a_prompt_beyond_the_context_fails_alone(self):
        result = self.fails(text_line("long", "word " * 400), "exceed_context_size_error", "2000 tokens", "1024 tokens")
        error = result["response"]["body"]["error"]
        self.assertEqual((error["n_prompt_tokens"], error["n_ctx"]), (2000, 1024))

    def test_hostile_lines(self):
        lines = [b'{"prompt":"\xff\xfe"}', b'{"prompt":"a\x00b"}', b"\x00" * 50, b"[" * 100000,
                 b'{"prompt":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"a":' * 100000,
                 b'{"prompt":"' + b"x" * (1 << 20) + b'"}', b'{"prompt":"ok","prompt":"ok"}', b'{"prompt":1e999}',
                 b'{"prompt":"\\ud800"}', b'{"prompt":"\\u0000"}',
                 b'{"custom_id":"' + b"i" * 100000 + b'","prompt":"abc"}', b"null", b'"text"', b"NaN", b"{}",
                 b"\x1b[31m", b'{"prompt":"abc","seed":18446744073709551615}', b'{"prompt":"abc","n":1e300}',
                 b'{"messages":[{"role":"<|im_end|>","content":"x"}]}', b'{"prompt":{"prompt_string":"x"}}',
                 b'{"prompt":"abc","logit_bias":[[9223372036854775807,1]]}', b'{"prompt":"abc","stop":""}']
        text = b'{"prompt":"first"}\n' + b"\n".join(lines) + b'\n{"custom_id":"last","prompt":"abc"}'
        results, said = self.batch(text, code=1)
        self.assertEqual(len(results), len(lines) + 2)
        self.assertIsNone(results["last"]["error"])
        self.assertIn("failed", said)
        # As plain text every one of them is a prompt or an error of its own, and nothing ends the run.
        results, _ = self.batch(b"first\n" + b"\n".join(lines), "-n", "2", code=1, name="text.jsonl")
        self.assertEqual(len(results), len(lines) + 1)

    def test_a_line_beyond_the_limit_is_not_held(self):
        long = b'{"prompt":"' + b"x" * (65 << 20) + b'"}\n'
        results, _ = self.batch(b'{"prompt":"a"}\n' + long + b'{"custom_id":"z","prompt":"b"}\n', code=1)
        self.assertIsNone(results["z"]["error"])
        self.assertEqual([r["error"]["code"] for r in results.values() if r["error"]], ["line_too_long"])

    def test_duplicate_ids(self):
        text = "\n".join([text_line("a", "one"), text_line("b", "two"), text_line("a", "three"), text_line("a", "one")])
        source, out = self.temporary("dup.jsonl", text), self.temporary("dup.out")
        for _ in range(2):  # nothing is said twice
            self.assertEqual(run("batch", *FAST, source, out).code, 1)
            results = lines_of(out)
            self.assertEqual(sorted(r["custom_id"] for r in results), ["a", "a", "a", "b"])
            failed = [r for r in results if r["error"]]
            self.assertEqual([r["error"]["code"] for r in failed], ["duplicate_custom_id"] * 2)
            self.assertEqual(len({r["id"] for r in results}), 4)

    def test_files_that_cannot_be_used(self):
        source = self.temporary("in.jsonl", text_line("a", "abc"))
        out = self.temporary("out.jsonl")
        self.assert_error(run("batch", *FAST, self.temporary("absent"), out), "absent", "No such file")
        self.assert_error(run("batch", *FAST, os.path.dirname(source), out), "is a directory")
        self.assert_error(run("batch", *FAST, source, self.temporary("no/such/out")), "No such file")
        self.assert_error(run("batch", *FAST, source, source), "is the input as well")
        self.assert_error(run("batch", *FAST, source, out, "third"), "third")
        self.assert_error(run("batch", *FAST, "-i", source, source, out), "both name the input")
        self.assert_error(run("batch", *FAST, "-np", "0", source, out), "--np", "0")
        self.assert_error(run("batch", *FAST, self.temporary("utf16", b"\xff\xfea\x00"), out), "UTF-16")

    def test_a_full_disk_ends_the_run(self):
        result = run("batch", *FAST, self.temporary("in.jsonl", text_line("a", "abc")), "/dev/full")
        self.assertEqual(result.code, 1, result)
        self.assertIn("No space left", result.error)

    def test_an_empty_input_is_no_failure(self):
        for text in ("", "\n\r\n  \n", "\ufeff"):
            _, said = self.batch(text)
            self.assertIn("batch: 0 answered, 0 failed", said)


class Resume(BatchCase):
    def setUp(self):
        self.source = self.temporary("in.jsonl", "\n".join(
            text_line("r%d" % i, "shared beginning " * (i % 4) + "prompt %d" % i, temperature=i % 2,
                      max_tokens=30 + i % 20, ignore_eos=True) for i in range(120)) + "\n")
        self.out = self.temporary("out.jsonl")
        self.command = ("batch", "-m", TINY, "-t", "1", "-np", "4", self.source, self.out)

    def whole(self):
        path = self.temporary("whole.jsonl")
        self.assertEqual(run(*self.command[:-1], path).code, 0)
        return answers_of(path)

    def n_lines(self):
        if not os.path.exists(self.out):
            return 0
        return read(self.out).count(b"\n")

    def start(self):
        process = subprocess.Popen([BINARY, *self.command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   env=environment())
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)
        return process

    def test_after_kill_9_no_line_is_lost_or_repeated(self):
        generator = random.Random()
        n_kills = 0
        for _ in range(7):
            wanted = self.n_lines() + generator.randrange(1, 6)
            process = self.start()
            while self.n_lines() < wanted and process.poll() is None:
                time.sleep(0.002)
            time.sleep(generator.random() * 0.005)
            process.kill()
            n_kills += process.wait(60) == -signal.SIGKILL
        self.assertGreaterEqual(n_kills, 5)
        result = run(*self.command)
        self.assertEqual(result.code, 0, result)
        self.assertRegex(result.error, r"; \d+ answered before")
        answers = answers_of(self.out)
        self.assertEqual(len(answers), 120)
        self.assertEqual(answers, self.whole())
        before = read(self.out)
        self.assertIn("120 answered before", run(*self.command).error)  # nothing is left to do
        self.assertEqual(read(self.out), before)

    def test_a_torn_last_line_is_run_again(self):
        whole = self.whole()
        data = read(self.temporary("whole.jsonl"))
        generator = random.Random(1)
        last = data[:-1].rindex(b"\n") + 1
        for cut in [last + 1, last + 5, len(data) - 2, len(data) - 1, last] + [generator.randrange(1, len(data))]:
            with open(self.out, "wb") as file:
                file.write(data[:cut])
            result = run(*self.command)
            self.assertEqual(result.code, 0, result)
            self.assertEqual(answers_of(self.out), whole, cut)
            if data[:cut].rpartition(b"\n")[2] and data[cut:cut + 1] != b"\n":
                self.assertIn("incomplete and is cut off", result.error)
        # Zeros are what a power failure leaves.
        with open(self.out, "wb") as file:
            file.write(data[:last] + b"\0" * 300)
        self.assertEqual(run(*self.command).code, 0)
        self.assertEqual(answers_of(self.out), whole)

    def test_a_foreign_output_is_left_alone(self):
        for text in ("my notes", "my notes\n", '{"id":"x"}\n', "[1]\n", "\n"):
            with open(self.out, "w") as file:
                file.write(text)
            self.assert_error(run(*self.command), "line 1", "no result of a batch")
            self.assertEqual(read(self.out), text.encode())
        self.assertEqual(run(*self.command, "--overwrite").code, 0)
        self.assertEqual(len(answers_of(self.out)), 120)

    def test_other_models_and_settings_are_told_apart(self):
        self.assertEqual(run(*self.command).code, 0)
        before = read(self.out)
        self.assert_error(run(*self.command, "--temp", "0.3"), "line 1", "other settings", "--allow-mixed")
        self.assert_error(run(*self.command, "-sys", "Be brief."), "other settings")
        self.assert_error(run(*self.command, "-m", TINY_RAW, "--chat-template", "chatml"), "another model")
        self.assert_error(run(*self.command, "-ctk", "f32"), "another model, cache type or precision")
        self.assertEqual(read(self.out), before)
        result = run(*self.command, "--temp", "0.3", "--allow-mixed")
        self.assertEqual(result.code, 0, result)
        self.assertIn("120 answers were made with another model or other settings", result.error)
        for harmless in (("-np", "2"), ("-t", "2"), ("-ub", "64"), ("--no-mmap",)):
            self.assertEqual(run(*self.command, *harmless).code, 0)
        self.assertEqual(read(self.out), before)

    def test_failures_stay_until_they_are_to_be_retried(self):
        good, bad = text_line("good", "abc"), text_line("bad", "abc", temperature="hot")
        source, out = self.temporary("f.jsonl", good + "\n" + bad + "\n"), self.temporary("f.out")
        command = ("batch", *FAST, source, out)
        self.assertEqual(run(*command).code, 1)
        result = run(*command)
        self.assertEqual(result.code, 1, result)
        self.assertIn("1 failed before (--retry-failed tries them again)", result.error)
        self.assertEqual(len(lines_of(out)), 2)
        self.temporary("f.jsonl", good + "\n" + text_line("bad", "abc", temperature=0) + "\n")
        result = run(*command)
        self.assertEqual(result.code, 1, result)
        self.assertIn("1 lines have changed since they were run", result.error)
        result = run(*command, "--retry-failed")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(sorted(answers_of(out)), ["bad", "good"])
        self.assertFalse(os.path.exists(out + ".tmp"))
        self.assertEqual(run(*command).code, 0)

    def test_two_runs_do_not_share_an_output(self):
        slow = self.temporary("slow.jsonl", "\n".join(
            text_line("r%d" % i, "abc", max_tokens=200, ignore_eos=True) for i in range(500)))
        first = subprocess.Popen([BINARY, "batch", *FAST, slow, self.out], stderr=subprocess.DEVNULL, env=environment())
        try:
            while not os.path.exists(self.out) or os.path.getsize(self.out) == 0:
                self.assertIsNone(first.poll())
                time.sleep(0.01)
            self.assert_error(run("batch", *FAST, slow, self.out), "another run is writing to it")
        finally:
            first.kill()
            first.wait()


class Interrupts(BatchCase):
    def setUp(self):
        self.source = self.temporary("in.jsonl", "\n".join(
            text_line("r%d" % i, "prompt %d" % i, max_tokens=400, ignore_eos=True) for i in range(60)))
        self.out = self.temporary("out.jsonl")
        self.command = ("batch", "-m", TINY, "-t", "1", "-np", "2", self.source, self.out)

    def wait_for_output(self, process):
        while not os.path.exists(self.out) or os.path.getsize(self.out) == 0:
            self.assertIsNone(process.poll())
            time.sleep(0.005)

    def test_ctrl_c_ends_with_whole_lines_and_a_summary(self):
        process = subprocess.Popen([BINARY, *self.command], stderr=subprocess.PIPE, env=environment())
        self.wait_for_output(process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, said)
        self.assertRegex(said.decode(), r"batch interrupted: \d+ answered, 0 failed")
        self.assertIn("the same command goes on from here", said.decode())
        n = len(lines_of(self.out))
        self.assertTrue(0 < n < 60, n)
        self.assertEqual(run(*self.command, "-np", "8").code, 0)
        self.assertEqual(len(answers_of(self.out)), 60)

    def test_ctrl_c_while_waiting_for_input(self):
        process = subprocess.Popen([BINARY, "batch", *FAST, "-i", "-", "-o", self.out], stdin=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=environment())
        process.stdin.write((text_line("a", "abc") + "\n").encode())
        process.stdin.flush()
        self.wait_for_output(process)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(20), 130)
        process.stdin.close()
        process.stderr.close()

    def test_a_terminal_shows_one_line_that_moves(self):
        with Terminal(*self.command, columns=120) as terminal:
            terminal.expect(r"batch \[[= ]+\] +\d+% \d+/60, ")
            terminal.expect(r"\r.*t/s, [\d.]+ % cached")
            terminal.interrupt()
            terminal.expect(r"batch interrupted: ")
            self.assertEqual(terminal.wait(), 130)


if __name__ == "__main__":
    main()
