"""snarkjs judges keys of our setup and proofs of every shape of circuit, and proves with our keys."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "prover"))  # the circuits are the ones that the prover's tests have

from r1cs_files import write_circuit
from shapes import SHAPES
from test_snarkjs import run

from kernels.build import build
from prover.commands import export_verification_key, prove_files, setup_files, verify_files

pytestmark = pytest.mark.peers

JUDGE = Path(__file__).parent / "node" / "judge.mjs"


def make(folder: Path, name: str) -> None:
    """Key, verification key and proof of a shape, by us."""
    folder.mkdir()
    r1cs, wtns = write_circuit(folder, SHAPES[name])
    zkey, vkey, proof, public = (folder / part for part in ("c.zkey", "vkey.json", "proof.json", "public.json"))
    setup_files(r1cs, zkey, 2)
    prove_files(zkey, wtns, proof, public, 2, r1cs=r1cs)
    export_verification_key(zkey, vkey)


@pytest.fixture(scope="module")
def judged(snarkjs: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, bool]]:
    """Every shape with its folder and whether snarkjs accepts our proof; one process of snarkjs for all of them."""
    if Path(snarkjs).resolve().parents[1] != (JUDGE.parent / "node_modules" / "snarkjs"):
        pytest.skip("snarkjs is not the one beside these tests: npm ci --prefix tests/peers/node")
    build()
    root = tmp_path_factory.mktemp("shapes")
    folders = {name: root / str(number) for number, name in enumerate(SHAPES)}
    for name, folder in folders.items():
        make(folder, name)
    done = subprocess.run(["node", JUDGE, *folders.values()], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    accepted = {verdict["folder"]: verdict["accepted"] for verdict in verdicts}
    return {name: (folder, accepted[str(folder)]) for name, folder in folders.items()}


@pytest.mark.parametrize("name", SHAPES)
def test_snarkjs_takes_our_keys_and_proofs(judged: dict[str, tuple[Path, bool]], name: str) -> None:
    folder, accepted = judged[name]
    assert accepted is True
    assert json.loads((folder / "theirs.json").read_text()) == json.loads((folder / "vkey.json").read_text())
    verify_files(folder / "vkey.json", folder / "theirs.public.json", folder / "theirs.proof.json")
    public, theirs = (json.loads((folder / name).read_text()) for name in ("public.json", "theirs.public.json"))
    assert public == theirs


def test_verification_keys_are_the_same_bytes(snarkjs: str, tmp_path: Path) -> None:
    build()
    make(tmp_path / "one", "linear")
    theirs = tmp_path / "theirs.json"
    assert run(snarkjs, "zkey", "export", "verificationkey", tmp_path / "one" / "c.zkey", theirs).returncode == 0
    assert theirs.read_bytes() == (tmp_path / "one" / "vkey.json").read_bytes()
