"""The measuring commands on tiny models: shapes of output, not figures."""
import json

from cli_testing import TINY, TestCase, main, run


class Bench(TestCase):
    def test_rows_with_and_without_the_ceiling(self):
        shape = ["-m", TINY, "-p", "40", "-n", "4", "-d", "0,32", "-r", "2", "-t", "1", "-o", "json"]
        rows = json.loads(run("bench", *shape).text)
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"]) for r in rows],
                         [(40, 0, 0), (0, 4, 0), (40, 0, 32), (0, 4, 32)])
        for row in rows:
            self.assertEqual(len(row["samples_ns"]), 2)
            self.assertGreater(row["bytes_per_token"], 0)
            self.assertGreater(row["kv_bytes_per_token"], 0)
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
        self.assertTrue(all(r["kv_bytes_per_token"] > 0 for r in rows))
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
        self.assertEqual(last["summary"]["n_refused"], 0)
        self.assertGreater(last["summary"]["kv_bytes_per_token"], 0)
        self.assertGreater(last["summary"]["kv_waste"], 0)
        self.assertGreater(last["summary"]["kv_waste_at_peak"], 0)
        self.assert_error(run("bench-serving", "-", "-m", TINY, stdin=b"{}\n"), "standard input: line 1: ")
        self.assert_error(run("bench-serving", "/absent", "-m", TINY), "/absent: cannot be opened")

    def served(self, requests, *args):
        text = "".join(json.dumps(request) + "\n" for request in requests)
        result = run("bench-serving", "-", "-m", TINY, "-t", "1", *args, stdin=text.encode())
        self.assertEqual(result.code, 0, result)
        lines = [json.loads(line) for line in result.text.splitlines()]
        return lines[:-1], lines[-1]["summary"]

    def test_a_full_queue_turns_requests_away(self):
        requests = [{"id": str(i), "prompt": [3 + i, 4, 5], "max_tokens": 3} for i in range(5)]
        requests.append({"id": "next", "prompt": [9, 9], "max_tokens": 2, "after": "4"})
        lines, summary = self.served(requests, "-np", "1", "--max-queued-requests", "2")
        self.assertEqual([line["id"] for line in lines if line.get("refused")], ["2", "3", "4"])
        self.assertEqual(summary["n_refused"], 3)
        self.assertEqual(len(lines[-1]["tokens"]), 2)

    def test_speculation_changes_no_token_of_a_workload(self):
        requests = [{"id": str(i), "prompt": [7, 8, 9, 10 + i] * 8, "max_tokens": 40} for i in range(3)]
        plain, _ = self.served(requests, "-np", "2")
        drafted, summary = self.served(requests, "-np", "2", "--spec-type", "ngram", "--no-spec-adaptive")
        self.assertEqual([line["tokens"] for line in drafted], [line["tokens"] for line in plain])
        self.assertGreater(summary["n_drafted"], 0)

    def test_how_requests_make_way(self):
        requests = [{"id": str(i), "prompt": list(range(3 + i, 35 + i)), "max_tokens": 90} for i in range(4)]
        expected = [line["tokens"] for line in self.served(requests, "-np", "4")[0]]
        for mode, kind in (("swap", "n_preempted_swap"), ("recompute", "n_preempted_recompute")):
            lines, summary = self.served(requests, "-np", "4", "--kv-tokens", "256", "--preemption-mode", mode,
                                         "--max-stall-ms", "0", "--priority-ageing-ms", "1000")
            self.assertEqual([line["tokens"] for line in lines], expected, mode)
            self.assertEqual(summary["n_preempted"], summary[kind])
            self.assertGreater(summary[kind], 0)


if __name__ == "__main__":
    main()
