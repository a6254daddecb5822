"""Compiles the cuda backend: ``python -m kernels.build_cuda [--out DIR] [--nvcc nvcc] [--archs "90"] [STAGE ...]``.

Each file STAGE.cu of kernels/src/cuda becomes cuzkops_STAGE.fatbin, with machine code for every architecture and PTX
for those to come. Needs nvcc 13 (the one on PATH, or pip's nvidia-cuda-nvcc) and g++, and no device. Nothing is
compiled where the stamp beside a fatbin says that it is current. Registers and spills of each kernel are printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernels.build import NATIVE_DIR, SOURCE_DIR, BuildError, run_tool

ARCHS = "80 86 89 90 100 120 compute_80 compute_120"
"""Machine code of these, and PTX of the last two for devices that are newer than all of them."""
FLAGS = ("-std=c++17", "-O3", "-lineinfo", "--Werror=all-warnings", "-Xptxas=-v")
STEP_TIMEOUT_S = 3600


def stages() -> list[str]:
    """Return the name of each file of kernels/src/cuda that holds kernels."""
    return sorted(path.stem for path in SOURCE_DIR.glob("cuda/*.cu"))


def sources(stage: str) -> list[Path]:
    """Return the file of a stage and every header that it includes, directly or not, in a fixed order."""
    found: set[Path] = set()
    left = [SOURCE_DIR / "cuda" / f"{stage}.cu"]
    while left:
        path = left.pop()
        found.add(path)
        for name in re.findall(r'^#include "([^"]+)"', path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            candidates = [folder / name for folder in (path.parent, SOURCE_DIR / "include")]
            left += [header for header in candidates if header.is_file() and header not in found]
    return sorted(found)


def sources_sha256(stage: str) -> str:
    """Digest of the names and contents of ``sources``."""
    digest = hashlib.sha256()
    for path in sources(stage):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(SOURCE_DIR).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def is_current(fatbin: Path) -> bool:
    """Whether a fatbin of ``build`` was made from the sources as they are now."""
    stage = fatbin.stem.removeprefix("cuzkops_")
    stamp = fatbin.with_suffix(".stamp")
    return stamp.is_file() and stamp.read_text(encoding="utf-8").partition("\n")[0] == sources_sha256(stage)


def find_nvcc(named: str | None) -> str:
    """Return the compiler: the named one, else that on PATH, else that of pip's nvidia-cuda-nvcc.

    Raises:
        BuildError: There is none.
    """
    pip = sorted(Path(sysconfig.get_path("purelib")).glob("nvidia/cu*/bin/nvcc"))
    for candidate in [named] if named else ["nvcc", *map(str, reversed(pip))]:
        found = shutil.which(candidate)
        if found is not None:
            return found
    looked = named or "nvcc on PATH or from pip"
    raise BuildError(
        f"no CUDA compiler ({looked}): pip install nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm, or --nvcc"
    )


def build(out: Path, nvcc: str | None = None, archs: str = "all", wanted: list[str] | None = None) -> list[Path]:
    """Compile the fatbins, those that are current excepted.

    Args:
        out: Folder that receives them and their stamps; made where it is missing.
        nvcc: Name or path of the compiler; None looks for one.
        archs: Numbers of architectures with machine code, and names such as ``compute_80`` for PTX, or ``"all"``.
        wanted: Stages; None is all of them.

    Returns:
        Their paths.

    Raises:
        BuildError: There is no compiler, an architecture or a stage is not one, or the compiler fails.
    """
    compiler = find_nvcc(nvcc)
    targets = _targets(archs)
    unknown = sorted(set(wanted or []) - set(stages()))
    if unknown:
        raise BuildError(f"there is no stage {unknown[0]!r}: {', '.join(stages())}")
    version = run_tool([compiler, "--version"]).strip().rpartition("\n")[2]
    out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        return list(pool.map(lambda stage: _compile(stage, out, compiler, version, targets), wanted or stages()))


def _targets(archs: str) -> list[str]:
    words = (ARCHS if archs.strip() == "all" else archs).replace(",", " ").split()
    wrong = [word for word in words if not re.fullmatch(r"(compute_)?[0-9]{2,3}", word)]
    if wrong or not words:
        raise BuildError(f"architectures are numbers such as 90 and names such as compute_80, not {archs!r}")
    codes = [word if word.startswith("compute_") else f"sm_{word}" for word in words]
    return [f"-gencode=arch=compute_{code.partition('_')[2]},code={code}" for code in codes]


def _compile(stage: str, out: Path, compiler: str, version: str, targets: list[str]) -> Path:
    fatbin = out / f"cuzkops_{stage}.fatbin"
    stamp = fatbin.with_suffix(".stamp")
    want = "\n".join([sources_sha256(stage), version, *FLAGS, *targets, ""])
    if fatbin.is_file() and stamp.is_file() and stamp.read_text(encoding="utf-8") == want:
        return fatbin
    sys.stderr.write(f"{stage}: compiling for {len(targets)} targets\n")
    with tempfile.TemporaryDirectory(dir=out, prefix=".build-") as folder:
        made = Path(folder) / fatbin.name
        source = SOURCE_DIR / "cuda" / f"{stage}.cu"
        command = [compiler, *FLAGS, *targets, "--threads=0", f"-I{SOURCE_DIR / 'include'}", "-fatbin", str(source)]
        report = run_tool([*command, "-o", str(made)], timeout_s=STEP_TIMEOUT_S, errors=True)
        if not made.is_file():
            raise BuildError(f"{compiler} ended well and wrote no {fatbin.name}: it is not nvcc")
        sys.stderr.write(resource_table(stage, report))
        stamp.unlink(missing_ok=True)  # a fatbin without its stamp is built again: never the other way round
        made.replace(fatbin)
        new_stamp = Path(folder) / "stamp"
        new_stamp.write_text(want, encoding="utf-8")
        new_stamp.replace(stamp)
    return fatbin


def resource_table(stage: str, report: str) -> str:
    """Make a line for each kernel and architecture of what ``ptxas -v`` reports."""
    lines = []
    kernel = arch = spills = ""
    for line in report.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            kernel, arch = found.groups()
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            spills = f"stack {found[1]}, spills {found[2]} + {found[3]} bytes"
        elif (found := re.search(r"Used (\d+) registers", line)) and kernel:
            lines.append(f"{stage}: {arch} {kernel}: {found[1]} registers, {spills}\n")
            kernel = ""
    return "".join(sorted(lines))


def main(arguments: list[str] | None = None) -> int:
    """Build from the command line: prints the fatbins' paths; 1 with one sentence where it fails."""
    parser = argparse.ArgumentParser(prog="python -m kernels.build_cuda", description="Compile the cuda backend.")
    parser.add_argument("--out", type=Path, default=NATIVE_DIR, help="folder for the fatbins (default: %(default)s)")
    parser.add_argument("--nvcc", default=os.environ.get("NVCC"), help="the compiler (default: $NVCC, PATH, pip's)")
    parser.add_argument(
        "--archs", default=os.environ.get("GPU_ARCHS") or "all", help=f"(default: $GPU_ARCHS, else all: {ARCHS})"
    )
    parser.add_argument("stage", nargs="*", help="names of files in kernels/src/cuda (default: all)")
    options = parser.parse_args(arguments)
    try:
        fatbins = build(options.out, options.nvcc, options.archs, options.stage)
    except (BuildError, OSError) as error:
        sys.stderr.write(f"kernels.build_cuda: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("kernels.build_cuda: interrupted: what was compiled stays\n")
        return 130
    sys.stdout.write("".join(f"{path}\n" for path in fatbins))
    return 0


if __name__ == "__main__":
    sys.exit(main())
