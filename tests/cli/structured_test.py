"""loci batch with SmolLM2 at temperature 1 under the schemas of tests/data/schemas: every finished answer parses and
is valid by PyPI jsonschema; what is refused is refused in the expected words. LOCI_SCHEMA_SEEDS sets the number
of answers for each schema (1)."""
import json
import os
import sys

from cli_testing import SMOLLM2, TINY, TestCase, main, needs, run

SCHEMAS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/schemas")
N_SEEDS = int(os.environ.get("LOCI_SCHEMA_SEEDS", "1"))
MAX_TOKENS = int(os.environ.get("LOCI_SCHEMA_TOKENS", "200"))
NOT_BUILT_IN = "structured output is not built in"


def read_lines(name):
    with open(os.path.join(SCHEMAS, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def body(schema, seed):
    return {"messages": [{"role": "user", "content": "Answer with JSON."}], "temperature": 1, "top_k": 0, "top_p": 1,
            "min_p": 0, "seed": seed, "max_tokens": MAX_TOKENS,
            "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": schema}}}


class Schemas(TestCase):
    def batch(self, model, requests, *flags):
        """Runs (id, body) pairs; id -> line of the output."""
        path = self.temporary("in.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for name, one in requests:
                file.write(json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions",
                                       "body": one}) + "\n")
        out = self.temporary("out.jsonl")
        result = run("batch", "-m", model, path, out, *flags, timeout=1500)
        self.assertIn(result.code, (0, 1), result.err.decode())
        with open(out, encoding="utf-8") as file:
            lines = {line["custom_id"]: line for line in map(json.loads, file)}
        self.assertEqual(len(lines), len(requests))
        if any(NOT_BUILT_IN in json.dumps(line) for line in lines.values()):
            if os.environ.get("CI") == "true":
                self.fail(NOT_BUILT_IN)
            self.skipTest(NOT_BUILT_IN)
        return lines

    def test_refused_schemas_say_why(self):
        cases = read_lines("refused.jsonl")
        lines = self.batch(TINY, [(case["name"], body(case["schema"], 1)) for case in cases])
        for case in cases:
            error = json.dumps(lines[case["name"]], ensure_ascii=False).replace('\\"', '"')
            self.assertIn(case["says"], error, case["name"])
            self.assertIn("Field 'response_format'", error, case["name"])

    @needs(SMOLLM2)
    def test_every_finished_answer_is_valid(self):
        import jsonschema
        cases = {case["name"]: case["schema"] for case in read_lines("valid.jsonl")}
        self.assertGreaterEqual(len(cases), 60)
        requests = [("%s#%d" % (name, seed), body(schema, seed)) for name, schema in cases.items()
                    for seed in range(N_SEEDS)]
        lines = self.batch(SMOLLM2, requests, "-np", "8", "-c", "1024")
        n_finished, never = 0, set(cases)
        for key, line in lines.items():
            name = key.rsplit("#", 1)[0]
            self.assertIsNone(line["error"], (name, line["error"]))
            self.assertEqual(line["response"]["status_code"], 200, (name, line))
            choice = line["response"]["body"]["choices"][0]
            if choice["finish_reason"] != "stop":
                continue
            n_finished += 1
            never.discard(name)
            text = choice["message"]["content"]
            value = json.loads(text)
            draft = jsonschema.Draft202012Validator
            validator = draft(cases[name], format_checker=draft.FORMAT_CHECKER)
            self.assertEqual([e.message for e in validator.iter_errors(value)], [], (name, text))
        print("%d schemas, %d answers, %d finished; never finished: %s" %
              (len(cases), len(requests), n_finished, ", ".join(sorted(never)) or "none"), file=sys.stderr)
        self.assertGreater(n_finished, 0.8 * len(requests))


if __name__ == "__main__":
    main()
