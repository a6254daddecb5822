"""Whole provers as processes, measured from outside, and the circuit that they prove."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "tests" / "data" / "groth16" / "cube500" / "sqchain.circom"
N_ROUNDS = 32700  # two constraints each: 65,400 of a domain of 2^16
TIMEOUT_S = 1200


class BenchError(Exception):
    """Something that the benchmark needs is missing or failed; one sentence."""


@dataclass(frozen=True)
class Measured:
    """What a process took.

    Args:
        cpu_s: User and system time, threads and children included.
        wall_s: From start to end.
        peak_bytes: Largest resident set of the process.
    """

    cpu_s: float
    wall_s: float
    peak_bytes: int


@dataclass(frozen=True)
class Circuit:
    """Files of the cube chain."""

    zkey: Path
    wtns: Path
    vkey: Path


def measure(command: list[str | Path]) -> Measured:
    """Run a command to its end.

    Raises:
        BenchError: It fails.
    """
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment())
    if process.stderr is None:
        raise BenchError("the process has no standard error")
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise BenchError(f"{command[0]} failed with {process.returncode}: {words.decode(errors='replace')[-500:]}")
    return Measured(usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss * 1024)


def tool(variable: str, name: str) -> str:
    """Find a program of npm: where the variable says, else on PATH.

    Raises:
        BenchError: It is in neither.
    """
    path = os.environ.get(variable) or shutil.which(name)
    if path is None or not Path(path).exists():
        raise BenchError(f"there is no {name}: npm install {name}, and set {variable} to its path")
    return path


def make_circuit(folder: Path) -> Circuit:
    """Compile the cube chain, calculate a witness and make a test key, unless they are there already."""
    circuit = Circuit(folder / "cube.zkey", folder / "cube.wtns", folder / "vkey.json")
    if circuit.vkey.is_file():
        return circuit
    circom, snarkjs = tool("CUZKOPS_CIRCOM", "circom2"), tool("CUZKOPS_SNARKJS", "snarkjs")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(TEMPLATE, folder)
    main = f'pragma circom 2.0.0;\ninclude "sqchain.circom";\ncomponent main {{public [k]}} = SqChain({N_ROUNDS});\n'
    (folder / "cube.circom").write_text(main, encoding="utf-8")
    (folder / "input.json").write_text(json.dumps({"x": "3" * 70, "k": "7" * 70}), encoding="utf-8")
    _in(folder, [circom, "cube.circom", "--r1cs", "--wasm", "--prime", "bls12381"])
    _in(folder, [snarkjs, "wtns", "calculate", "cube_js/cube.wasm", "input.json", "cube.wtns"])
    _in(folder, [*_prover(), "setup", "--insecure", "cube.r1cs", "cube.zkey"])
    _in(folder, [*_prover(), "vkey", "cube.zkey", "vkey.json"])
    return circuit


def prove_with(name: str, circuit: Circuit, folder: Path, threads: int) -> Measured:
    """Prove with ``ours``, ``snarkjs`` or ``naive``, and have the proof verified by us.

    Raises:
        BenchError: It fails, or the proof does not verify.
    """
    proof, public = folder / f"{name}.proof.json", folder / f"{name}.public.json"
    proof.unlink(missing_ok=True)
    files: list[str | Path] = [circuit.zkey, circuit.wtns, proof, public]
    commands: dict[str, list[str | Path]] = {
        "ours": [*_prover(), "prove", "--threads", str(threads), *files],
        "snarkjs": [tool("CUZKOPS_SNARKJS", "snarkjs"), "groth16", "prove", *files],
        "naive": [sys.executable, ROOT / "bench" / "host_naive.py", *files],
    }
    measured = measure(commands[name])
    measure([*_prover(), "verify", circuit.vkey, public, proof])
    return measured


def _prover() -> list[str | Path]:
    return [sys.executable, "-m", "prover"]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def _in(folder: Path, command: list[str | Path]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode:
        raise BenchError(f"{command[0]} failed with {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
