"""The host kernels beside their peers: ``python bench/host.py [--rounds N] [--work DIR]``.

Prints a table and writes bench/results/host.json. Peers: py-arkworks for the MSMs; snarkjs and ``host_naive.py`` for
whole proofs of a cube chain of 2^16, whose circuit needs circom2 ($CUZKOPS_CIRCOM, $CUZKOPS_SNARKJS, else on PATH).
Both sides run one after the other in each round, so that a busy machine slows both; the least time of each counts.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import py_arkworks_bls12381 as arkworks
from host_processes import ROOT, BenchError, Measured, make_circuit, measure, prove_with, tool
from rows import Row

import kernels
from kernels.gen.constants import P, R
from kernels.interface import FrPlain, G1Affine, G2Affine

if TYPE_CHECKING:
    from collections.abc import Callable

RESULTS = ROOT / "bench" / "results" / "host.json"
PROOF_THREADS = 2


def compared(work: str, log2_n: int, unit: str, ours: float, peer: float, *, goal: float, floor: float) -> Row:
    """Make a row of a measure of which less is better."""
    reason = "" if peer / ours >= goal else "below the goal"
    return Row(work, log2_n, unit, ours, peer, "lower", round(peer / ours, 2), goal, floor, reason)


def least_cpu_s(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Least CPU time of this process for each of several works, which take turns."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for i, work in enumerate(works):
            start = time.process_time()
            work()
            best[i] = min(best[i], time.process_time() - start)
    return best


def _limbs(numbers: list[int], n_bytes: int, width: int) -> Any:
    raw = b"".join(number.to_bytes(n_bytes, "little") for number in numbers)
    return np.frombuffer(raw, dtype="<u8").reshape(-1, width).copy()


def msm_row(group: str, log2_n: int, rounds: int) -> Row:
    """Multiply 2^log2_n random points on one thread, ours and py-arkworks', and compare the sums."""
    rng = random.Random(log2_n)
    kind: Any = arkworks.G1Point if group == "g1" else arkworks.G2Point
    numbers = [rng.randrange(R) for _ in range(2**log2_n)]
    scalars = [arkworks.Scalar.from_le_bytes(k.to_bytes(32, "little")) for k in numbers]
    points, step = [kind() * scalars[0]], kind() * scalars[1]
    while len(points) < 2**log2_n:
        points.append(points[-1] + step)

    def array(some: list[Any]) -> Any:
        raw = b"".join(bytes(point.to_xy_bytes_le()) for point in some)
        coordinates = [int.from_bytes(raw[i : i + 48], "little") * 2**384 % P for i in range(0, len(raw), 48)]
        return _limbs(coordinates, 48, 12 if group == "g1" else 24)

    backend = kernels.backend("host", threads=1)
    bases: Any = backend.load_bases(G1Affine(array(points)) if group == "g1" else G2Affine(array(points)))
    plain = FrPlain(_limbs(numbers, 32, 4))
    if not np.array_equal(backend.msm(bases, plain).limbs, array([kind.multiexp_unchecked(points, scalars)])):
        raise BenchError(f"the sums of {group} differ from those of py-arkworks")
    ours, peer = least_cpu_s(
        rounds, lambda: backend.msm(bases, plain), lambda: kind.multiexp_unchecked(points, scalars)
    )
    return compared(f"MSM {group.upper()}, 1 thread, py-arkworks", log2_n, "s of CPU", ours, peer, goal=2, floor=1.3)


def proof_rows(folder: Path, rounds: int) -> list[Row]:
    """Prove the cube chain as a user would, a process for each proof."""
    circuit = make_circuit(folder)
    runs: dict[str, list[Measured]] = {"ours": [], "snarkjs": [], "naive": []}
    for _ in range(rounds):
        for name, results in runs.items():
            results.append(prove_with(name, circuit, folder, PROOF_THREADS))
    cpu = {name: min(run.cpu_s for run in results) for name, results in runs.items()}
    peak = {name: min(run.peak_bytes for run in results) / 1e6 for name, results in runs.items()}
    wall_share = min(run.wall_s / run.cpu_s for run in runs["ours"])
    nothing = min(measure([sys.executable, "-m", "prover", "--version"]).cpu_s for _ in range(3))
    load = os.getloadavg()[0]
    reason = f"one thread: start of Python and imports, {nothing:.2f} s of CPU for --version alone"
    is_first = os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR)  # such as under chrt -r: others wait
    if load > len(os.sched_getaffinity(0)) + 1 and not is_first:
        reason = f"says nothing: other work had the CPUs (load average {load:.1f})"
    reason = reason if wall_share > 0.55 else ""
    share = Row("whole proof, 2 threads, wall over CPU", 16, "1", wall_share, None, "lower", None, 0.55, 0.65, reason)
    return [
        compared("whole proof, 2 threads, snarkjs", 16, "s of CPU", cpu["ours"], cpu["snarkjs"], goal=6, floor=4),
        compared(
            "whole proof, 2 threads, Python and arkworks", 16, "s of CPU", cpu["ours"], cpu["naive"], goal=3, floor=2
        ),
        share,
        compared("peak memory of a whole proof, snarkjs", 16, "MB", peak["ours"], peak["snarkjs"], goal=2.2, floor=1.5),
    ]


def _first_line(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return (done.stdout or done.stderr).partition("\n")[0].strip()


def document(rows: list[Row]) -> dict[str, Any]:
    """Make what bench/results/host.json holds."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "device": f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} CPUs",
        "host": platform.platform(),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "load_average": round(os.getloadavg()[0], 1),
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "py-arkworks-bls12381": version("py-arkworks-bls12381"),
            "snarkjs": _first_line([tool("CUZKOPS_SNARKJS", "snarkjs"), "--version"]),
            "circom2": _first_line([tool("CUZKOPS_CIRCOM", "circom2"), "--version"]),
            "node": _first_line(["node", "--version"]),
            "g++": _first_line(["g++", "--version"]),
        },
        "rows": [{k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(row).items()} for row in rows],
    }


def show(rows: list[Row]) -> None:
    """Print the table."""
    print(f"{'work':46} {'2^':>3} {'unit':>9} {'ours':>8} {'peer':>8} {'ratio':>6} {'goal':>5} {'floor':>5}")
    for row in rows:
        peer, ratio = (f"{x:.3f}" if x is not None else "-" for x in (row.peer, row.ratio))
        print(
            f"{row.work:46} {row.log2_n:3} {row.unit:>9} {row.ours:8.3f} {peer:>8} {ratio:>6} {row.goal:5} "
            f"{row.floor:5} {row.reason}"
        )


def main() -> int:
    """Measure, print and write; 1 with one sentence where something is missing."""
    parser = argparse.ArgumentParser(description="The host kernels beside their peers.")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "bench", help="folder for the circuit")
    options = parser.parse_args()
    try:
        rows = [msm_row(group, log2_n, options.rounds) for group, log2_n in (("g1", 14), ("g1", 16), ("g2", 14))]
        rows += proof_rows(options.work, options.rounds)
        RESULTS.write_text(json.dumps(document(rows), indent=1) + "\n", encoding="utf-8")
    except BenchError as error:
        sys.stderr.write(f"bench/host.py: {error}\n")
        return 1
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
