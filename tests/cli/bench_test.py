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
        self.assert_error(run("bench-serving", "-", "-m", TINY, stdin=b"{}\n"), "standard input: line 1: ")
        self.assert_error(run("bench-serving", "/absent", "-m", TINY), "/absent: cannot be opened")


if __name__ == "__main__":
    main()
