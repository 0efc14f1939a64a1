#!/usr/bin/env python3
"""Stands in for llama-server in tests: /health, and /completion as a stream of as many tokens as were asked for."""
import argparse
import http.server
import json


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        n_prompt, n_predict = len(body["prompt"]), body["n_predict"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for i in range(n_predict):
            self.event({"content": "x", "tokens": [i], "stop": False})
        timings = {"prompt_n": n_prompt, "predicted_n": n_predict}
        self.event({"content": "", "tokens": [], "stop": True, "timings": timings})

    def event(self, data):
        self.wfile.write(b"data: " + json.dumps(data).encode() + b"\n\n")
        self.wfile.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--kv-unified", action="store_true")
    for flag in ("-m", "-c", "-np", "-t"):
        parser.add_argument(flag)
    args = parser.parse_args()
    http.server.ThreadingHTTPServer((args.host, args.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
