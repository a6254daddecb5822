"""snarkjs judges keys of our setup and proofs of every shape of circuit, and proves with our keys."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "prover"))  # the circuits are the ones that the prover's tests have

from r1cs_files import write_circuit
from shapes import SHAPES
from test_snarkjs import run

from kernels.build import build
from prover.commands import export_verification_key, prove_files, setup_files, verify_files

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", SHAPES)
def test_snarkjs_takes_our_keys_and_proofs(snarkjs: str, tmp_path: Path, name: str) -> None:
    build()
    r1cs, wtns = write_circuit(tmp_path, SHAPES[name])
    zkey, vkey, proof, public = (tmp_path / part for part in ("c.zkey", "vkey.json", "proof.json", "public.json"))
    setup_files(r1cs, zkey, 2)
    prove_files(zkey, wtns, proof, public, 2, r1cs=r1cs)
    export_verification_key(zkey, vkey)
    done = run(snarkjs, "groth16", "verify", vkey, public, proof)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs = tmp_path / "theirs.json"
    assert run(snarkjs, "zkey", "export", "verificationkey", zkey, theirs).returncode == 0
    assert theirs.read_bytes() == vkey.read_bytes()
    done = run(snarkjs, "groth16", "prove", zkey, wtns, proof, public)
    assert done.returncode == 0, done.stdout + done.stderr
    verify_files(vkey, public, proof)
