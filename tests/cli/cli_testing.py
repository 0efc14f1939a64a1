"""Runs the program for tests: plainly (run) and on a pseudo-terminal (Terminal). Standard library only."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

BINARY = os.environ.get("LOCI_BINARY", "loci")
TINY = os.path.join(os.environ.get("LOCI_TINY_MODELS", "."), "tiny.gguf")
TINY_RAW = os.path.join(os.environ.get("LOCI_TINY_MODELS", "."), "tiny_raw.gguf")
MODELS = os.environ.get("LOCI_MODELS") or os.path.expanduser("~/.cache/loci/models")
SMOLLM2 = os.path.join(MODELS, "smollm2-135m-instruct-q4_1.gguf")
SANITIZED = os.environ.get("LOCI_SANITIZE", "") != ""  # the sanitizers that the program was built with
QWEN = os.path.join(MODELS, "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf")
GEMMA = os.path.join(MODELS, "gemma-3-270m-q4_k_m.gguf")


def environment(**changes):
    """The environment of a fresh user: no flags, own state folder, a UTF-8 terminal."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_ARG_") and k not in ("NO_COLOR", "INPUTRC")}
    env.update({"TERM": "xterm", "LC_ALL": "C.UTF-8", "LOCI_MODELS": MODELS,
                "XDG_STATE_HOME": tempfile.gettempdir() + "/loci-test-state-%d" % os.getpid()})
    env.update(changes)
    return env


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out.decode("utf-8")  # raises on invalid UTF-8

    @property
    def error(self):
        return self.err.decode("utf-8", "replace")

    def __repr__(self):
        return "exit %s\nstdout: %r\nstderr: %r" % (self.code, self.out, self.err)


def run(*args, stdin=b"", env=None, timeout=120, preexec=None, pass_fds=()):
    done = subprocess.run([BINARY, *args], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=env or environment(), timeout=timeout, preexec_fn=preexec, pass_fds=pass_fds)
    return Result(done.returncode, done.stdout, done.stderr)


class Terminal:
    """The program with stdin, stdout and stderr on one pseudo-terminal, which is its controlling terminal."""

    def __init__(self, *args, env=None, columns=100):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.modes = termios.tcgetattr(self.slave)
        self.seen = b""
        self.read_to = 0

        def attach():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([BINARY, *args], stdin=self.slave, stdout=self.slave, stderr=self.slave,
                                        env=env or environment(), preexec_fn=attach, close_fds=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def _read(self, timeout):
        ready, _, _ = select.select([self.master], [], [], timeout)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.seen += data
        return bool(data)

    def expect(self, pattern, timeout=60):
        """Waits until a regular expression matches what came after the last match; returns the match."""
        deadline = time.monotonic() + timeout
        compiled = re.compile(pattern.encode() if isinstance(pattern, str) else pattern, re.DOTALL)
        while True:
            match = compiled.search(self.seen, self.read_to)
            if match:
                self.read_to = match.end()
                return match
            if time.monotonic() > deadline or (self.process.poll() is not None and not self._read(0.2)):
                match = compiled.search(self.seen, self.read_to)
                if match:
                    self.read_to = match.end()
                    return match
                raise AssertionError("expected %r, saw %r" % (pattern, self.seen[self.read_to:][-3000:]))
            self._read(0.05)

    def prompt(self, timeout=60):
        """Waits for the prompt; readline has set up the terminal when it shows."""
        return self.expect(r"(?:^|[\n\r]|\x1b\[1;32m|\x1b\[\?2004h)> ", timeout)

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def line(self, text):
        self.send(text + "\r")

    def interrupt(self):
        self.send(b"\x03")  # through the terminal, as a person does

    def interrupt_twice(self, gap):
        """Two signals. The kernel merges a second one with a first that a starved program has not been given yet."""
        self.interrupt()
        time.sleep(gap)
        while self._interrupt_is_pending():
            time.sleep(0.001)
        self.interrupt()

    def _interrupt_is_pending(self):
        try:
            with open("/proc/%d/status" % self.process.pid) as status:
                pending = next(line for line in status if line.startswith("ShdPnd:"))
        except OSError:
            return False
        return int(pending.split()[1], 16) >> (signal.SIGINT - 1) & 1 == 1

    def resize(self, columns):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process.send_signal(signal.SIGWINCH)

    def wait(self, timeout=20):
        deadline = time.monotonic() + timeout
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError("still running after %s s, saw %r" % (timeout, self.seen[-3000:]))
            self._read(0.05)
        while self._read(0.1):
            pass
        return self.process.returncode

    def modes_restored(self):
        return termios.tcgetattr(self.slave) == self.modes

    def colours_reset(self):
        """True when no colour is on after the last byte, and bracketed paste is off."""
        colours = re.findall(rb"\x1b\[([0-9;]*)m", self.seen)
        pastes = re.findall(rb"\x1b\[\?2004([hl])", self.seen)
        return (not colours or colours[-1] in (b"", b"0")) and (not pastes or pastes[-1] == b"l")


class TestCase(unittest.TestCase):
    def temporary(self, name="", content=None):
        if not hasattr(self, "_directory"):
            self._directory = tempfile.TemporaryDirectory()
            self.addCleanup(self._directory.cleanup)
        path = os.path.join(self._directory.name, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
        return path

    def assert_error(self, result, *parts):
        """Exit code 1, nothing on stdout, one line on stderr that starts with 'error: ' and holds the parts."""
        self.assertEqual(result.code, 1, result)
        self.assertEqual(result.out, b"", result)
        lines = result.error.splitlines()
        self.assertEqual(len(lines), 1, result)
        self.assertTrue(lines[0].startswith("error: "), result)
        for part in parts:
            self.assertIn(part, lines[0])


def needs(path):
    return unittest.skipUnless(os.path.exists(path), "absent: " + path)


def main():
    """Runs the tests named on the command line; exit code 77 when all of them were skipped."""
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
