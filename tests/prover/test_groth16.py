"""Proofs of the three circuits, stage by stage, and witnesses that must not get one."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from groth16_files import CIRCUITS, document, host, join, path_of, split

import prover.groth16
from prover.checked_keys import CheckedKeys
from prover.curve import g1, g1_coordinates, g2, g2_coordinates
from prover.errors import InputError, ProofInvalidError
from prover.formats.snarkjs import g1_document, g2_document, read_proof
from prover.formats.wtns import Witness, read_witness
from prover.groth16 import LoadedKey, check, finalise, load_key, prove, prove_on_device, synthesise
from prover.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

KEYS: dict[str, LoadedKey] = {}


def key_of(circuit: str) -> LoadedKey:
    if circuit not in KEYS:
        KEYS[circuit] = load_key(path_of(circuit, "circuit.zkey"), host())
    return KEYS[circuit]


def witness_of(circuit: str) -> Witness:
    return read_witness(path_of(circuit, "witness.wtns"))


def witness_with(circuit: str, index: int, value: int) -> Witness:
    sections = split(path_of(circuit, "witness.wtns").read_bytes())
    sections[2][32 * index : 32 * index + 32] = value.to_bytes(32, "little")
    return read_witness(join("wtns", 2, sections))


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_key_carries_the_verification_key_of_snarkjs(circuit: str) -> None:
    key = key_of(circuit)
    assert key.verification_key == document(circuit, "verification_key.json")
    assert key.n_public == key.verification_key["nPublic"]
    assert key.held_bytes > 0.9 * path_of(circuit, "circuit.zkey").stat().st_size


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_proof_is_accepted_by_an_independent_library(circuit: str) -> None:
    record = prove(key_of(circuit), witness_of(circuit))
    assert record.public == document(circuit, "public.json")
    verify(document(circuit, "verification_key.json"), record.public, record.proof)


def test_stages_say_how_long_they_took() -> None:
    key = key_of("cube500")
    parts = prove_on_device(key, synthesise(key, witness_of("cube500")))
    durations = parts.durations
    phases = (durations.ntt_ns, durations.h_msm_ns, durations.tail_msm_ns, durations.b_g2_msm_ns)
    assert all(phase > 0 for phase in phases)
    assert 0.8 * durations.total_ns < sum(phases) <= durations.total_ns


def test_proofs_of_one_witness_differ_and_all_verify() -> None:
    key = key_of("mul60")
    parts = prove_on_device(key, synthesise(key, witness_of("mul60")))
    records = [finalise(key, parts) for _ in range(3)]
    for record in records:
        check(key, record)
    for part in ("pi_a", "pi_b", "pi_c"):
        assert len({str(record.proof[part]) for record in records}) == 3


def test_second_proof_opens_no_key_and_checks_no_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[tuple[str, str]] = Counter()

    def counted(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def count(*arguments: Any, **options: Any) -> Any:
            counts[name, str(arguments[0]).rpartition(".")[2] if name == "open" else ""] += 1
            return real(*arguments, **options)

        monkeypatch.setattr(owner, name, count)

    backend = host()
    counted(os, "open")
    counted(type(backend), "first_invalid")
    counted(prover.groth16, "read_zkey")
    counted(prover.groth16, "check_subgroups")
    path = tmp_path / "circuit.zkey"
    shutil.copy(path_of("mul60", "circuit.zkey"), path)
    key = load_key(path, backend, CheckedKeys(tmp_path / "checked"))
    witness = read_witness(path_of("mul60", "witness.wtns"))
    first = prove(key, witness)
    assert counts["open", "zkey"] >= 1
    assert counts["first_invalid", ""] >= 1
    counts.clear()
    path.unlink()
    second = prove(key, witness)
    assert counts == {}
    assert first.proof != second.proof


def test_number_of_threads_does_not_change_the_sums() -> None:
    from kernels.host.backend import HostBackend

    witness = witness_of("cube500")
    results = []
    for threads in (1, 5):
        key = load_key(path_of("cube500", "circuit.zkey"), HostBackend(threads))
        results.append(prove_on_device(key, synthesise(key, witness)))
    for part in ("a", "b1", "b2", "c", "h"):
        assert np.array_equal(getattr(results[0], part).limbs, getattr(results[1], part).limbs)


def test_proofs_made_at_the_same_time_all_verify() -> None:
    key, witness = key_of("mul60"), witness_of("mul60")
    done: list[str] = []

    def one() -> None:
        prove(key, witness)
        done.append("verified")

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert done == ["verified"] * 6


def test_unsatisfied_witness_gets_no_proof() -> None:
    key = key_of("mul60")
    for index in (1, 5, 119):
        with pytest.raises(ProofInvalidError, match="does not verify, and is thrown away") as caught:
            prove(key, witness_with("mul60", index, 12345))
        assert "does not satisfy the circuit" in caught.value.hint


def test_witness_that_does_not_start_with_one_is_refused() -> None:
    with pytest.raises(InputError, match="element 0 must be 1 and is 2"):
        synthesise(key_of("mul60"), witness_with("mul60", 0, 2))


def test_witness_of_another_length_is_refused() -> None:
    with pytest.raises(InputError, match=r"has 1003 elements, and the circuit of .*mul60.* has 120 wires"):
        synthesise(key_of("mul60"), witness_of("cube500"))


def moved(proof: dict[str, Any], part: str) -> dict[str, Any]:
    """The same proof with another point of the subgroup in one place."""
    points = read_proof(proof, "proof")
    if part == "pi_b":
        return {**proof, part: g2_document(g2_coordinates(g2(points.b) + g2(points.b)))}
    point = points.a if part == "pi_a" else points.c
    return {**proof, part: g1_document(g1_coordinates(g1(point) + g1(point)))}


@pytest.mark.parametrize("circuit", CIRCUITS)
class TestVerify:
    def test_proofs_of_snarkjs_are_accepted(self, circuit: str) -> None:
        verify(*(document(circuit, f"{name}.json") for name in ("verification_key", "public", "proof")))

    @pytest.mark.parametrize("part", ["pi_a", "pi_b", "pi_c"])
    def test_changed_proofs_are_refused(self, circuit: str, part: str) -> None:
        vkey, public = document(circuit, "verification_key.json"), document(circuit, "public.json")
        with pytest.raises(ProofInvalidError, match="not valid for these public values"):
            verify(vkey, public, moved(document(circuit, "proof.json"), part))

    def test_other_public_values_are_refused(self, circuit: str) -> None:
        vkey, proof = document(circuit, "verification_key.json"), document(circuit, "proof.json")
        public = document(circuit, "public.json")
        for i in range(len(public)):
            other = [*public[:i], str(int(public[i]) + 1), *public[i + 1 :]]
            with pytest.raises(ProofInvalidError):
                verify(vkey, other, proof)

    def test_wrong_number_of_public_values_is_refused(self, circuit: str) -> None:
        vkey, proof = document(circuit, "verification_key.json"), document(circuit, "proof.json")
        public = document(circuit, "public.json")
        for other in (public[:-1], [*public, "0"]):
            with pytest.raises(InputError, match=rf"takes {len(public)} public values, and {len(other)} were given"):
                verify(vkey, other, proof)

    def test_all_infinity_is_refused(self, circuit: str) -> None:
        proof = {
            **document(circuit, "proof.json"),
            "pi_a": ["0", "1", "0"],
            "pi_b": [["0", "0"], ["1", "0"], ["0", "0"]],
            "pi_c": ["0", "1", "0"],
        }
        with pytest.raises(ProofInvalidError):
            verify(document(circuit, "verification_key.json"), document(circuit, "public.json"), proof)


# (4, y) with y^2 = 4^3 + 4 lies on E(Fp), whose order is the cofactor times r: nearly no such point is in the subgroup
def outside_the_subgroup() -> list[str]:
    from prover.formats.field import P

    x = 1
    while True:
        square = (x**3 + 4) % P
        y = pow(square, (P + 1) // 4, P)
        if y * y % P == square and not g1((x, y)).is_in_subgroup():
            return [str(x), str(y), "1"]
        x += 1


def test_points_outside_the_subgroup_are_refused() -> None:
    vkey, public, proof = (document("mul60", f"{name}.json") for name in ("verification_key", "public", "proof"))
    point = outside_the_subgroup()
    for part in ("pi_a", "pi_c"):
        with pytest.raises(ProofInvalidError, match="not in the subgroup"):
            verify(vkey, public, {**proof, part: point})
    with pytest.raises(InputError, match="verification key: a point is not in the subgroup"):
        verify({**vkey, "vk_alpha_1": point}, public, proof)
    with pytest.raises(InputError, match="verification key: a point is not in the subgroup"):
        verify({**vkey, "IC": [vkey["IC"][0], point]}, public, proof)


def test_malleable_form_is_a_valid_proof_too() -> None:
    vkey, public, proof = (document("mul60", f"{name}.json") for name in ("verification_key", "public", "proof"))
    points = read_proof(proof, "proof")
    negated = {**proof, "pi_a": g1_document(g1_coordinates(-g1(points.a)))}
    negated["pi_b"] = g2_document(g2_coordinates(-g2(points.b)))
    verify(vkey, public, negated)


def test_sums_of_another_key_are_noticed() -> None:
    key = key_of("mul60")
    parts = prove_on_device(key, synthesise(key, witness_of("mul60")))
    with pytest.raises(ProofInvalidError):
        check(key, finalise(key, replace(parts, h=parts.c)))
