"""The JSON documents: written as snarkjs writes them, and read with every number checked."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any

import pytest
from groth16_files import CIRCUITS, document, path_of

from prover.errors import InputError
from prover.formats.field import P, R
from prover.formats.snarkjs import (
    dump_document,
    g1_document,
    g2_document,
    load_document,
    proof_document,
    read_proof,
    read_public,
    read_verification_key,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_documents_are_written_byte_for_byte_as_snarkjs_does(circuit: str) -> None:
    proof = read_proof(document(circuit, "proof.json"), "proof")
    assert dump_document(proof_document(proof)) == path_of(circuit, "proof.json").read_text()
    assert dump_document(document(circuit, "public.json")) == path_of(circuit, "public.json").read_text()


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_verification_keys_are_read(circuit: str) -> None:
    raw = document(circuit, "verification_key.json")
    key = read_verification_key(raw, "key")
    assert key.n_public == raw["nPublic"]
    assert g2_document(key.delta2) == raw["vk_delta_2"]
    assert [g1_document(point) for point in key.ic] == raw["IC"]


def test_infinity_has_its_form() -> None:
    raw = document("mul60", "proof.json")
    raw["pi_a"], raw["pi_b"] = ["0", "1", "0"], [["0", "0"], ["1", "0"], ["0", "0"]]
    proof = read_proof(raw, "proof")
    assert (proof.a, proof.b) == (None, None)
    assert proof_document(proof) == raw


@pytest.mark.parametrize("curve", ["bls12381", "bls12-381", "BLS12_381"])
def test_spellings_of_the_curve(curve: str) -> None:
    read_proof({**document("mul60", "proof.json"), "curve": curve}, "proof")


def changed(raw: Any, path: list[str | int], value: Any) -> Any:
    raw = copy.deepcopy(raw)
    place = raw
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return raw


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (["protocol"], "plonk", "the protocol is 'plonk', and 'groth16' is the one"),
        (["curve"], "bn128", "the curve is 'bn128', and 'bls12381' is the one"),
        (["curve"], 7, "the curve is '7'"),
        (["pi_a", 0], 5, "must be a decimal string"),
        (["pi_a", 0], "0x5", "must be a decimal string, and is '0x5'"),
        (["pi_a", 0], "05", "must be a decimal string"),
        (["pi_a", 0], "-5", "must be a decimal string"),
        (["pi_a", 0], " 5", "must be a decimal string"),
        (["pi_a", 0], "5\n", "must be a decimal string"),
        (["pi_a", 0], "\u0665", "must be a decimal string"),
        (["pi_a", 0], "9" * 5000, "must be a decimal string"),
        (["pi_a", 0], str(P), r"pi_a\[0\] is not below p"),
        (["pi_a", 0], "5", "pi_a is not on the curve G1"),
        (["pi_a", 2], "0", "pi_a must be"),
        (["pi_a"], ["1", "2"], "pi_a must be"),
        (["pi_a"], None, "pi_a must be"),
        (["pi_b", 0, 1], "5", "pi_b is not on the curve G2"),
        (["pi_b", 1, 0], str(P + 1), r"pi_b\[1\]\[0\] is not below p"),
        (["pi_b", 0], ["1"], r"pi_b\[0\] must be a list of two"),
        (["pi_b", 2], ["0", "1"], "pi_b must be"),
        (["pi_c", 1], "7", "pi_c is not on the curve G1"),
    ],
)
def test_wrong_proofs_are_refused(path: list[str | int], value: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_proof(changed(document("mul60", "proof.json"), path, value), "proof.json")


def test_missing_parts_are_named() -> None:
    raw = document("mul60", "proof.json")
    for key in raw:
        with pytest.raises(InputError, match=rf"proof.json: {key} is missing"):
            read_proof({k: v for k, v in raw.items() if k != key}, "proof.json")
    with pytest.raises(InputError, match="must be a JSON object"):
        read_proof([raw], "proof.json")


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (["nPublic"], 2, "nPublic must be 1, one less than the points of IC, and is 2"),
        (["nPublic"], True, "nPublic must be 1"),
        (["nPublic"], "1", "nPublic must be 1"),
        (["IC"], [], "IC must be a list of at least one point"),
        (["IC", 1, 0], "5", r"IC\[1\] is not on the curve"),
        (["vk_alpha_1"], ["0", "1", "0"], "alpha1 is infinity: such a key accepts everything or nothing"),
        (["vk_delta_2"], [["0", "0"], ["1", "0"], ["0", "0"]], "delta2 is infinity"),
    ],
)
def test_wrong_verification_keys_are_refused(path: list[str | int], value: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_verification_key(changed(document("mul60", "verification_key.json"), path, value), "vkey")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ([str(R)], "value 0 is not below r"),
        (["1", str(R + 5)], "value 1 is not below r"),
        (["-1"], "must be a decimal string"),
        ([1], "must be a decimal string"),
        ({"0": "1"}, "must be a list"),
        ("1", "must be a list"),
    ],
)
def test_wrong_public_values_are_refused(value: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_public(value, "public.json")
    assert read_public([], "public.json") == []
    assert read_public([str(R - 1)], "public.json") == [R - 1]


def test_files_that_are_no_documents_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    for raw, match in ((b"{", "is not JSON"), (b"\xff", "is not JSON"), (b"[" * 100_000, "is not JSON")):
        file.write_bytes(raw)
        with pytest.raises(InputError, match=match):
            load_document(file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        load_document(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_document(tmp_path)


LARGE = 48 * 2**20 - 16


@pytest.mark.parametrize(
    "data",
    [
        b'["1"' + b',"1"' * (LARGE // 4 - 1),
        b"[" * LARGE,
        b'{"a":' * (LARGE // 5),
        b"[" + b"1," * (LARGE // 2),
        b"[" + b"{}," * (LARGE // 3),
        b"[" + b"[]," * (LARGE // 3),
        b"[" + b"1" * LARGE + b"]",
        b" " * LARGE,
        b"\0" * (64 * 2**20),
    ],
    ids=["strings", "nested lists", "nested objects", "numbers", "objects", "lists", "digits", "spaces", "zeros"],
)
def test_large_files_that_are_none_are_refused_within_a_second(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.json").write_bytes(data)
    start_s = time.process_time()
    with pytest.raises(InputError, match=r"x\.json (is|has)"):
        load_document(tmp_path / "x.json")
    assert time.process_time() - start_s < 1


def test_large_documents_are_read(tmp_path: Path) -> None:
    public = [str(R - 1 - i) for i in range(20_000)]
    (tmp_path / "public.json").write_text(dump_document(public))
    assert (tmp_path / "public.json").stat().st_size > 2**20
    assert read_public(load_document(tmp_path / "public.json"), "public") == [R - 1 - i for i in range(20_000)]
    vkey = document("mul60", "verification_key.json")
    vkey["IC"] *= 5000
    vkey["nPublic"] = len(vkey["IC"]) - 1
    (tmp_path / "vkey.json").write_text(dump_document(vkey))
    assert read_verification_key(load_document(tmp_path / "vkey.json"), "vkey").n_public == 9999
