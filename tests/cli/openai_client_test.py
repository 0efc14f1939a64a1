"""A tour of loci serve with OpenAI's own Python client, on SmolLM2."""
import json
import os
import sys
import threading
import time

from cli_testing import QWEN, SMOLLM2, TestCase, main, needs
from server_testing import Server

try:
    import openai
except ImportError:
    openai = None

QUESTION = [{"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": "Name the capital of France in one word."}]


@needs(SMOLLM2)
class Tour(TestCase):
    @classmethod
    def setUpClass(cls):
        if openai is None:
            return
        cls.server = Server("-m", SMOLLM2, "-c", "4096", "-t", "2", "--api-key", "secret", "--metrics", "--temp", "0")
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="secret", max_retries=0)

    @classmethod
    def tearDownClass(cls):
        if openai is not None:
            cls.server.stop()

    def setUp(self):
        if openai is None:
            self.skipTest("absent: the Python package openai")

    def chat(self, **more):
        return self.client.chat.completions.create(model="any", messages=QUESTION, **{"max_tokens": 24, **more})

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["smollm2-135m-instruct-q4_1"])

    def test_chat_whole_and_streamed(self):
        whole = self.chat()
        self.assertIn("Paris", whole.choices[0].message.content)
        self.assertEqual(whole.choices[0].finish_reason, "stop")
        self.assertEqual(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens)
        chunks = list(self.chat(stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)
        self.assertEqual(chunks[-1].usage.prompt_tokens_details.cached_tokens, whole.usage.prompt_tokens - 1)

    def test_stop_seed_and_several_answers(self):
        stopped = self.chat(stop=["Paris"])
        self.assertNotIn("Paris", stopped.choices[0].message.content)
        one = self.chat(n=3, temperature=1, seed=5)
        again = self.chat(n=3, temperature=1, seed=5)
        self.assertEqual([c.message.content for c in one.choices], [c.message.content for c in again.choices])
        self.assertEqual([c.index for c in one.choices], [0, 1, 2])

    def test_log_probabilities(self):
        answer = self.chat(logprobs=True, top_logprobs=3)
        records = answer.choices[0].logprobs.content
        self.assertEqual("".join(r.token for r in records), answer.choices[0].message.content)
        for record in records:
            self.assertEqual(len(record.top_logprobs), 3)
            self.assertEqual(record.logprob, record.top_logprobs[0].logprob)  # greedy

    def test_completions(self):
        prompts = ["The capital of France is", "1, 2, 3,"]
        answer = self.client.completions.create(model="any", prompt=prompts, max_tokens=8)
        self.assertEqual(len(answer.choices), 2)
        self.assertIn("Paris", answer.choices[0].text)
        self.assertIn("4", answer.choices[1].text)
        text = "".join(c.choices[0].text for c in
                       self.client.completions.create(model="any", prompt="1, 2, 3,", max_tokens=8, stream=True))
        self.assertEqual(text, answer.choices[1].text)

    def test_a_new_turn_computes_only_what_is_new(self):
        first = self.chat()
        turn = QUESTION + [{"role": "assistant", "content": first.choices[0].message.content},
                           {"role": "user", "content": "And of Italy?"}]
        second = self.client.chat.completions.create(model="any", messages=turn, max_tokens=16)
        self.assertGreaterEqual(second.usage.prompt_tokens_details.cached_tokens, first.usage.prompt_tokens)

    def test_responses(self):
        whole = self.client.responses.create(model="any", instructions=QUESTION[0]["content"],
                                             input=QUESTION[1]["content"], max_output_tokens=24)
        self.assertIn("Paris", whole.output_text)
        self.assertEqual(whole.status, "completed")
        events = list(self.client.responses.create(model="any", instructions=QUESTION[0]["content"], stream=True,
                                                   input=QUESTION[1]["content"], max_output_tokens=24))
        self.assertEqual([e.sequence_number for e in events], list(range(len(events))))
        self.assertEqual("".join(e.delta for e in events if e.type == "response.output_text.delta"), whole.output_text)
        self.assertEqual(events[-1].type, "response.completed")
        self.assertEqual(events[-1].response.output_text, whole.output_text)

    def test_errors(self):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.chat(top_logprobs=3)
        self.assertIn("top_logprobs requires logprobs to be set to true", str(raised.exception))
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=self.server.url + "/v1", api_key="wrong", max_retries=0).models.list()
        with self.assertRaises(openai.InternalServerError) as raised:
            self.client.images.generate(model="any", prompt="a cat")
        self.assertEqual(raised.exception.status_code, 501)

    def test_embeddings(self):
        texts = ["The cat sat on the mat.", "A cat is sitting on a rug.", "Interest rates rose again."]
        vectors = [item.embedding for item in self.client.embeddings.create(model="any", input=texts).data]

        def likeness(a, b):
            return sum(x * y for x, y in zip(a, b))
        self.assertAlmostEqual(likeness(vectors[0], vectors[0]), 1, places=4)
        self.assertGreater(likeness(vectors[0], vectors[1]), likeness(vectors[0], vectors[2]))

    def test_leaving_ends_the_work(self):
        long_prompt = " ".join("word%d" % i for i in range(900))  # computed for seconds
        for in_prefill in (True, False):
            n_tokens_before = self.figure("tokens_predicted_total")
            stream = self.client.chat.completions.create(
                model="any", stream=True, max_tokens=2000, extra_body={"ignore_eos": True, "cache_prompt": False},
                messages=[{"role": "user", "content": long_prompt if in_prefill else "Count."}])
            chunks = iter(stream)
            next(chunks)  # the role, before the prompt is computed
            if not in_prefill:
                next(chunks)
            while self.running() == 0:
                time.sleep(0.01)
            start = time.monotonic()
            stream.close()
            while self.running() > 0 and time.monotonic() - start < 60:
                time.sleep(0.02)
            took = time.monotonic() - start
            print("left %s: idle after %.2f s" % ("in prefill" if in_prefill else "in decode", took), file=sys.stderr)
            self.assertEqual(self.running(), 0)
            if in_prefill:
                self.assertEqual(self.figure("tokens_predicted_total"), n_tokens_before)
        self.assertEqual(self.figure('request_success_total{finished_reason="cancelled"}'), 2)

    def figure(self, name):
        return self.server.metrics({"Authorization": "Bearer secret"})["loci:" + name]

    def running(self):
        return self.figure("requests_processing") + self.figure("requests_deferred")

    def test_many_clients_get_what_they_get_alone(self):
        def ask(i):
            return self.client.completions.create(model="any", prompt="Story %d:" % (i % 4), max_tokens=12, seed=i,
                                                  temperature=0.8).choices[0].text
        alone = [ask(i) for i in range(8)]
        together = [None] * 8

        def work(i):
            together[i] = ask(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(together, alone)


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}


@needs(QWEN)
class Tools(TestCase):
    def test_a_call_whole_and_streamed(self):
        if openai is None:
            self.skipTest("absent: the Python package openai")
        with Server("-m", QWEN, "-c", "2048", "-t", "2", "--temp", "0") as server:
            client = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)

            def ask(**more):
                return client.chat.completions.create(
                    model="any", max_tokens=60, tools=[WEATHER],
                    messages=[{"role": "user", "content": "What is the weather in Paris? Use the tool."}], **more)
            whole = ask().choices[0]
            text, calls, reason = "", {}, None
            for chunk in ask(stream=True):
                delta = chunk.choices[0].delta
                text += delta.content or ""
                reason = chunk.choices[0].finish_reason or reason
                for call in delta.tool_calls or []:
                    name, arguments = calls.get(call.index, ("", ""))
                    calls[call.index] = (name + (call.function.name or ""), arguments + call.function.arguments)
            self.assertEqual(reason, whole.finish_reason)
            self.assertEqual(text, whole.message.content or "")
            found = [(c.function.name, c.function.arguments) for c in whole.message.tool_calls or []]
            self.assertEqual([calls[i] for i in sorted(calls)], found)
            print("called: %s, said: %r" % (found, text), file=sys.stderr)
            for _, arguments in found:
                self.assertIsInstance(json.loads(arguments), dict)


if __name__ == "__main__":
    os.environ.pop("OPENAI_BASE_URL", None)
    main()
