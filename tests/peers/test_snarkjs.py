"""snarkjs judges our proofs; its own are judged by us in tests/prover/test_groth16.py."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kernels.build import build
from prover.commands import prove_files, verify_files

DATA = Path(__file__).parents[1] / "data" / "groth16"
CIRCUITS = ("mul60", "cube500", "merkle_mimc5")

pytestmark = pytest.mark.peers


def run(snarkjs: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([snarkjs, *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_our_proofs_are_accepted_and_others_are_not(snarkjs: str, tmp_path: Path, circuit: str) -> None:
    build()
    folder = DATA / circuit
    proof, public = tmp_path / "proof.json", tmp_path / "public.json"
    prove_files(folder / "circuit.zkey", folder / "witness.wtns", proof, public, None)
    done = run(snarkjs, "groth16", "verify", folder / "verification_key.json", public, proof)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "OK!" in done.stdout
    values = json.loads(public.read_text())
    public.write_text(json.dumps([str(int(values[0]) + 1), *values[1:]]))
    done = run(snarkjs, "groth16", "verify", folder / "verification_key.json", public, proof)
    assert done.returncode != 0
    assert "Invalid proof" in done.stdout


def test_fresh_proofs_and_keys_of_snarkjs_are_accepted(snarkjs: str, tmp_path: Path) -> None:
    zkey, wtns = DATA / "mul60" / "circuit.zkey", DATA / "mul60" / "witness.wtns"
    proof, public, vkey = (tmp_path / f"{name}.json" for name in ("proof", "public", "vkey"))
    assert run(snarkjs, "groth16", "prove", zkey, wtns, proof, public).returncode == 0
    assert run(snarkjs, "zkey", "export", "verificationkey", zkey, vkey).returncode == 0
    verify_files(vkey, public, proof)
