"""What a bare machine with a GPU, Python 3.12 and CuPy needs to test and measure: ``python bench/bundle.py``.

Puts the checkout's Python, the host library, the fatbins, the circuits of the demo, wheels and (with ``--peer``) the
peer into one folder, with a script that tests and measures: ``./run [test|bench|sanitize|code|all]``. ``sanitize`` is
small sums under compute-sanitizer, ``code`` counts instructions. Build first: ``make kernels cuda``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
NATIVE = ROOT / "kernels" / "_native"
FOLDERS = ("kernels", "prover", "cuzkops", "tests/gpu", "bench")
FILES = ("pyproject.toml", "tests/conftest.py")
NOT_WHEELS = ("numpy",)  # comes with CuPy
LIMIT_BYTES = 48 << 20

RUN = """#!/bin/sh
# Test and measure on this machine's GPU: ./run [test|bench|sanitize|code|all]. Results: bench/results/kernels.json.
set -eu
cd "$(dirname "$0")"
site=$(mktemp -d)
trap 'rm -rf "$site"' EXIT
[ -d wheels ] && python3 -m pip install -q --no-index --no-deps --no-compile --target "$site" wheels/*.whl
export PYTHONPATH="$PWD:$site" CUZKOPS_NATIVE_DIR="$PWD/native" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
what=${1:-all}
peer=
[ -f native/peer.so ] && peer="--peer native/peer.so"
case $what in test|all) python3 -m pytest -q -m gpu -p no:cacheprovider tests/gpu ;; esac
small='proof and 32 or host_give and 1997 or several_rounds'
case $what in sanitize) for tool in memcheck racecheck; do
  compute-sanitizer --tool $tool --error-exitcode 9 python3 -m pytest -q -m gpu -p no:cacheprovider \\
    tests/gpu/test_gpu_msm_sets.py -k "$small"
done ;; esac
case $what in bench|all) python3 bench/device.py $peer ;; esac
case $what in code|all) python3 bench/device_code.py ;; esac  # last: not every machine has cuobjdump
"""


def checkout_files() -> list[str]:
    """Names of the tracked and new files that a device needs."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "--", *FOLDERS, *FILES]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def pinned() -> list[str]:
    """Return what the lock file of the prover names, with the versions."""
    lines = (ROOT / "requirements-prover.lock").read_text(encoding="utf-8").splitlines()
    words = [line.split()[0] for line in lines if line[:1].isalpha()]
    return [word for word in words if word.partition("==")[0] not in NOT_WHEELS]


def make(out: Path, peer: Path | None) -> int:
    """Fill the folder anew.

    Returns:
        Its bytes.
    """
    shutil.rmtree(out, ignore_errors=True)
    for name in checkout_files():
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    native = out / "native"
    native.mkdir()
    for path in [*NATIVE.glob("*.so"), *NATIVE.glob("*.fatbin"), *([peer] if peer else [])]:
        shutil.copy(path, native / ("peer.so" if path == peer else path.name))
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version"]
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 28, 34)] + [
        "--platform=manylinux2014_x86_64"
    ]
    subprocess.run([*download, "3.12", *platforms, "-d", str(out / "wheels"), *pinned()], check=True)
    script = out / "run"
    script.write_text(RUN, encoding="ascii")
    script.chmod(0o755)
    return sum(path.stat().st_size for path in out.rglob("*") if path.is_file())


def main() -> int:
    """Make the folder, and say how large it is; 1 where it is too large or something is missing."""
    parser = argparse.ArgumentParser(description="Make a folder that a bare GPU machine can run.")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "device-bundle", help="(default: %(default)s)")
    parser.add_argument("--peer", type=Path, help="the adapter to the peer, built (see bench/peer_sppark.cu)")
    options = parser.parse_args()
    if not list(NATIVE.glob("*.fatbin")) or not list(NATIVE.glob("*.so")):
        sys.stderr.write(f"bundle: there are no kernels in {NATIVE}: make kernels cuda\n")
        return 1
    n_bytes = make(options.out, options.peer)
    sys.stdout.write(f"{options.out}: {n_bytes / 2**20:.1f} MiB\n")
    if n_bytes > LIMIT_BYTES:
        sys.stderr.write(f"bundle: more than {LIMIT_BYTES >> 20} MiB: compile for one architecture (GPU_ARCHS=90)\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
