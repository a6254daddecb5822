"""Compiles the host backend: ``python -m kernels.build [--out DIR] [--cxx g++]``.

Needs a C++17 compiler (g++ 10 or newer, or a cross compiler of that family) and nothing else, numpy included. The
library runs on any CPU of its architecture: no instruction set beyond the baseline is asked for. The same sources,
flags and compiler give the same bytes, and nothing is compiled where the stamp beside the library says so already.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LIBRARY_NAME = "libcuzkops_host.so"
SOURCE_DIR = Path(__file__).parent / "src"
NATIVE_DIR = Path(__file__).parent / "_native"

COMPILE_FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow")
LINK_FLAGS = ("-shared", "-s", "-pthread", "-static-libstdc++", "-static-libgcc", "-Wl,-z,relro,-z,now,-z,noexecstack")
STEP_TIMEOUT_S = 600


class BuildError(Exception):
    """The library could not be compiled; the message is one sentence, with the compiler's words below it."""


def sources() -> list[Path]:
    """Return every C++ file of the host backend, in a fixed order."""
    return sorted([*SOURCE_DIR.glob("host/*.[ch]pp"), *SOURCE_DIR.glob("include/*.hpp")])


def sources_sha256() -> str:
    """Digest of the names and contents of ``sources``; the library carries it, see ``cuzkops_sources_sha256``."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCE_DIR).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def build(out: Path = NATIVE_DIR, cxx: str = "g++") -> Path:
    """Compile the library, unless the one in ``out`` is what would come out.

    Args:
        out: Folder that receives the library and its stamp; made where it is missing.
        cxx: Name or path of the compiler.

    Returns:
        Path of the library.

    Raises:
        BuildError: There is no such compiler, it fails, or it takes longer than ten minutes.
    """
    compiler = shutil.which(cxx)
    if compiler is None:
        raise BuildError(f"no C++ compiler {cxx!r} on this machine: install g++ (10 or newer), or name one with --cxx")
    library = out / LIBRARY_NAME
    stamp = library.with_suffix(".stamp")
    digest = sources_sha256()
    version = run_tool([compiler, "--version"]).partition("\n")[0]
    want = "\n".join([digest, version, *COMPILE_FLAGS, *LINK_FLAGS, ""])
    if library.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == want:
        return library
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".build-") as folder:
        made = _compile(compiler, digest, Path(folder))
        stamp.unlink(missing_ok=True)  # a library without its stamp is built again: never the other way round
        made.replace(library)
        new_stamp = Path(folder) / "stamp"
        new_stamp.write_text(want, encoding="utf-8")
        new_stamp.replace(stamp)
    return library


def _compile(compiler: str, digest: str, folder: Path) -> Path:
    """Compile each source, several at once, and link them in ``folder``."""

    def one(source: Path) -> str:
        target = str(folder / f"{source.stem}.o")
        defines = [f'-DCUZKOPS_SOURCES_SHA256="{digest}"', f"-ffile-prefix-map={SOURCE_DIR}=src"]
        run_tool([compiler, *COMPILE_FLAGS, *defines, f"-I{SOURCE_DIR / 'include'}", "-c", str(source), "-o", target])
        return target

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        objects = list(pool.map(one, sorted(SOURCE_DIR.glob("host/*.cpp"))))
    library = folder / LIBRARY_NAME
    run_tool([compiler, *objects, *LINK_FLAGS, "-o", str(library)])
    return library


def run_tool(command: list[str], *, timeout_s: float = STEP_TIMEOUT_S, errors: bool = False) -> str:
    """Run a compiler.

    Args:
        command: Its words.
        timeout_s: How long it may take.
        errors: Return what it writes to standard error, too.

    Returns:
        What it writes.

    Raises:
        BuildError: It cannot be started, fails, or takes too long.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise BuildError(f"gave up after {timeout_s:g} s: {' '.join(command)}") from None
    except OSError as error:
        raise BuildError(f"cannot start {command[0]}: {error.strerror}") from None
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-20:])
        raise BuildError(f"status {done.returncode} of: {' '.join(command)}\n{last}")
    return done.stdout + (done.stderr if errors else "")


def main(arguments: list[str] | None = None) -> int:
    """Build from the command line: prints the library's path; 1 with one sentence where it fails."""
    parser = argparse.ArgumentParser(prog="python -m kernels.build", description="Compile the host backend.")
    parser.add_argument("--out", type=Path, default=NATIVE_DIR, help="folder for the library (default: %(default)s)")
    parser.add_argument("--cxx", default=os.environ.get("CXX") or "g++", help="the compiler (default: $CXX, else g++)")
    options = parser.parse_args(arguments)
    try:
        library = build(options.out, options.cxx)
    except (BuildError, OSError) as error:
        sys.stderr.write(f"kernels.build: {error}\n")
        return 1
    sys.stdout.write(f"{library}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
