"""Starts loci serve for tests. Standard library only."""
import contextlib
import http.client
import json
import re
import signal
import subprocess
import threading

from cli_testing import BINARY, environment


class Server:
    """The program with a free port; `url` and `port` are known once it listens."""

    def __init__(self, *args, env=None):
        self.process = subprocess.Popen([BINARY, "serve", "--port", "0", *args], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environment())
        self.log = []
        for line in self.process.stderr:
            self.log.append(line.decode("utf-8", "replace"))
            found = re.search(r"listening on (https?://[^:]+:(\d+)\S*)", self.log[-1])
            if found:
                self.url, self.port = found.group(1), int(found.group(2))
                break
        else:
            raise AssertionError("the server ended: " + "".join(self.log))
        self._drainer = threading.Thread(target=self._drain, daemon=True)
        self._drainer.start()

    def _drain(self):
        for line in self.process.stderr:
            self.log.append(line.decode("utf-8", "replace"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process.stderr.closed:
            self.stop(signal.SIGKILL)

    def stop(self, sent=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(sent)
        self.process.wait(60)
        self._drainer.join(10)
        self.process.stderr.close()
        self.process.stdout.close()
        return self.process.returncode

    def request(self, method, path, body=None, headers=None):
        """Status and parsed JSON (or text) of an answer."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request(method, path, None if body is None else json.dumps(body), headers or {})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8")
            is_json = answer.headers.get("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(text) if is_json else text

    def metrics(self, headers=None):
        _, text = self.request("GET", "/metrics", headers=headers)
        samples = (line.rsplit(" ", 1) for line in text.splitlines() if line[:1] not in ("#", ""))
        return {name: float(value) for name, value in samples}
