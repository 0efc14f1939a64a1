"""loci serve as a program: flags, start, signals. On a tiny model."""
import json
import signal
import socket
import ssl
import subprocess
import time
import urllib.request

from cli_testing import BINARY, TINY, TINY_RAW, TestCase, environment, main, run
from server_testing import Server

FLAGS = ("-m", TINY, "-c", "256", "-t", "1")


class Start(TestCase):
    def test_listens_answers_and_ends(self):
        with Server(*FLAGS) as server:
            self.assertEqual(server.request("GET", "/health"), (200, {"status": "ok"}))
            status, answer = server.request("POST", "/v1/chat/completions",
                                            {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})
            self.assertEqual(status, 200)
            self.assertLessEqual(answer["usage"]["completion_tokens"], 4)
            self.assertEqual(answer["model"], "tiny")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 0)
            self.assertEqual(server.process.stdout.read(), b"")  # the log goes to stderr

    def test_server_is_the_same_command(self):
        self.assertEqual(run("server", "--help").out, run("serve", "--help").out)

    def test_model_without_a_template_serves_texts(self):
        with Server("-m", TINY_RAW, "-c", "256", "-t", "1", "-a", "raw,other", "-n", "3") as server:
            status, answer = server.request("POST", "/v1/completions", {"prompt": "x", "ignore_eos": True})
            self.assertEqual((status, answer["model"], answer["usage"]["completion_tokens"]), (200, "raw", 3))
            status, answer = server.request("POST", "/v1/chat/completions", {"messages": []})
            self.assertEqual((status, answer["error"]["type"]), (501, "not_supported_error"))

    def test_open_door_is_told(self):
        with Server(*FLAGS, "--host", "0.0.0.0") as server:
            self.assertIn("no key is needed", "".join(server.log))
        with Server(*FLAGS, "--host", "0.0.0.0", "--api-key", "k") as server:
            self.assertNotIn("no key is needed", "".join(server.log))
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            self.assertEqual(server.request("GET", "/v1/models", headers={"X-Api-Key": "k"})[0], 200)

    def test_keys_from_a_file(self):
        path = self.temporary("keys", "# comment\n\n  one \r\ntwo\n")
        with Server(*FLAGS, "--api-key-file", path) as server:
            for key, status in (("one", 200), ("two", 200), ("# comment", 401), ("", 401)):
                self.assertEqual(server.request("GET", "/v1/models", headers={"Authorization": "Bearer " + key})[0],
                                 status)
        self.assert_error(run("serve", *FLAGS, "--api-key-file", self.temporary("none", "# none\n")), "expected a key")

    def test_taken_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.assert_error(run("serve", *FLAGS, "--port", port), "cannot listen on 127.0.0.1:" + port)

    def test_wrong_flags(self):
        self.assert_error(run("serve", *FLAGS, "--port", "70000"), "--port")
        self.assert_error(run("serve", *FLAGS, "--ssl-cert-file", "x"), "go together")
        self.assert_error(run("serve", *FLAGS, "--models-dir", "x"), "not supported by this build", "one model")
        self.assert_error(run("run", "--port", "1"), "a flag of serve")

    def test_tls(self):
        key, cert = self.temporary("key.pem"), self.temporary("cert.pem")
        made = subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                               "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                               "subjectAltName=DNS:localhost", "-keyout", key, "-out", cert], stderr=subprocess.PIPE)
        if made.returncode != 0:
            self.skipTest("openssl made no certificate")
        with Server(*FLAGS, "--ssl-key-file", key, "--ssl-cert-file", cert) as server:
            self.assertTrue(server.url.startswith("https://"))
            context = ssl.create_default_context(cafile=cert)
            body = json.dumps({"prompt": "x", "max_tokens": 20, "stream": True, "ignore_eos": True}).encode()
            request = urllib.request.Request("https://localhost:%d/v1/completions" % server.port, body)
            with urllib.request.urlopen(request, context=context, timeout=60) as answer:
                self.assertTrue(answer.read().endswith(b"data: [DONE]\n\n"))
            with socket.create_connection(("127.0.0.1", server.port)) as plain:  # no TLS at all
                plain.sendall(b"GET /health HTTP/1.1\r\n\r\n")
                plain.settimeout(20)
                try:
                    self.assertNotIn(b"ok", plain.recv(100))
                except ConnectionResetError:
                    pass
        self.assert_error(run("serve", *FLAGS, "--ssl-key-file", key, "--ssl-cert-file", key), "certificate")


class Signals(TestCase):
    def begin_stream(self, server, n_tokens):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.settimeout(60)
        self.addCleanup(connection.close)
        body = json.dumps({"prompt": "x", "max_tokens": n_tokens, "stream": True, "ignore_eos": True, "n": 8})
        connection.sendall(("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
                            % (len(body), body)).encode())
        self.assertIn(b"200 OK", connection.recv(1000))
        return connection

    def rest(self, connection):
        text = b""
        while True:
            more = connection.recv(65536)
            if not more:
                return text
            text += more

    def test_requests_at_work_end_first(self):
        with Server(*FLAGS) as server:
            connection = self.begin_stream(server, 100)
            server.process.send_signal(signal.SIGINT)
            self.assertIn(b"[DONE]", self.rest(connection))
            self.assertEqual(server.process.wait(60), 0)

    def test_a_second_signal_ends_at_once(self):
        with Server("-m", TINY, "-t", "1") as server:
            self.begin_stream(server, 1000)
            server.process.send_signal(signal.SIGTERM)
            while not any("once more" in line for line in server.log):
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 128 + signal.SIGTERM)

    def test_a_signal_while_loading(self):
        process = subprocess.Popen([BINARY, "serve", "--port", "0", *FLAGS], stderr=subprocess.PIPE, env=environment())
        self.addCleanup(process.stderr.close)
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(60), (0, 128 + signal.SIGTERM, -signal.SIGTERM))


if __name__ == "__main__":
    main()
