"""The JSON documents of snarkjs: proof.json, public.json and verification_key.json.

Numbers are decimal strings. A point of G1 is ``[x, y, "1"]``, of G2 ``[[x0, x1], [y0, y1], ["1", "0"]]`` with c0 first;
infinity has z = 0. ``"curve"`` is ``"bls12381"``; the other spellings that snarkjs takes are read as well.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from prover.errors import InputError
from prover.formats.field import P, R

if TYPE_CHECKING:
    from pathlib import Path

# Plain affine coordinates; None is infinity.
G1Point = tuple[int, int] | None
G2Point = tuple[tuple[int, int], tuple[int, int]] | None

CURVE = "bls12381"
PROTOCOL = "groth16"
MAX_DOCUMENT_BYTES = 48 * 2**20  # a verification key of 150,000 public values fits

# What costs seconds to parse in a document of many megabytes, and what no document of this kind has.
_LARGE_BYTES = 2**20
_MAX_STRINGS = 3_000_000
_MAX_OBJECTS = 16
_MIN_LIST_BYTES = 12  # ["0","1","0"] is the shortest point
_BARE_VALUE = re.compile(rb"[\[,]\s*[^\s\"\[\]]")

CURVE_NAMES = {"bls12381", "bls12-381", "bls12_381"}
_DECIMAL = re.compile(r"(?:0|[1-9][0-9]{0,119})\Z", re.ASCII)
_G1_INFINITY = ["0", "1", "0"]
_G2_INFINITY = [["0", "0"], ["1", "0"], ["0", "0"]]


@dataclass(frozen=True)
class Proof:
    """The three points of a proof, on their curves; their subgroup was not looked at."""

    a: G1Point
    b: G2Point
    c: G1Point


@dataclass(frozen=True)
class VerificationKey:
    """What a verifier knows of a circuit; points are on their curves, and the first four are not infinity."""

    alpha1: G1Point
    beta2: G2Point
    gamma2: G2Point
    delta2: G2Point
    ic: list[G1Point]

    @property
    def n_public(self) -> int:
        """Number of public values."""
        return len(self.ic) - 1


def load_document(path: Path) -> Any:
    """Read one JSON file.

    Raises:
        InputError: It cannot be read, is larger than any such document, or is not JSON.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise InputError("json-unreadable", f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > MAX_DOCUMENT_BYTES:
        raise InputError("json-too-large", f"{path} has more than {MAX_DOCUMENT_BYTES} bytes: it is no such document")
    if len(raw) > _LARGE_BYTES:
        _check_density(raw, path)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InputError("json-malformed", f"{path} is not JSON: {error}") from None


def _check_density(raw: bytes, path: Path) -> None:
    """Refuse a large file that is no list of strings or of points, before a parser spends seconds on it."""
    too_many = raw.count(b"{") > _MAX_OBJECTS or raw.count(b'"') > 2 * _MAX_STRINGS
    if too_many or raw.count(b"[") * _MIN_LIST_BYTES > len(raw):
        what = f"expected one object, points, and at most {_MAX_STRINGS} strings, found more"
    elif bare := _BARE_VALUE.search(raw):
        at = bare.end() - 1
        what = f"at byte {at}: expected a string or a list, found {raw[at : at + 20]!r}"
    else:
        return
    raise InputError("json-malformed", f"{path} is no proof, verification key or list of public values: {what}")


def dump_document(document: Any) -> str:
    """Write a document as snarkjs does: one space of indentation, no newline at the end."""
    return json.dumps(document, indent=1)


def proof_document(proof: Proof) -> dict[str, Any]:
    """Write proof.json."""
    return {
        "pi_a": g1_document(proof.a),
        "pi_b": g2_document(proof.b),
        "pi_c": g1_document(proof.c),
        "protocol": PROTOCOL,
        "curve": CURVE,
    }


def g1_document(point: G1Point) -> list[str]:
    """Write one point of G1."""
    return [str(point[0]), str(point[1]), "1"] if point else list(_G1_INFINITY)


def g2_document(point: G2Point) -> list[list[str]]:
    """Write one point of G2."""
    if point is None:
        return [list(pair) for pair in _G2_INFINITY]
    return [[str(c) for c in point[0]], [str(c) for c in point[1]], ["1", "0"]]


def read_proof(document: Any, name: str) -> Proof:
    """Check proof.json.

    Args:
        document: The parsed JSON.
        name: What to call it in messages.

    Raises:
        InputError: A part is missing, not a number below p, or not on its curve.
    """
    reader = _Reader(document, name)
    reader.check_kind()
    return Proof(a=reader.g1("pi_a"), b=reader.g2("pi_b"), c=reader.g1("pi_c"))


def read_verification_key(document: Any, name: str) -> VerificationKey:
    """Check verification_key.json; ``vk_alphabeta_12`` is not used and not looked at.

    Raises:
        InputError: A part is missing or malformed, a point is not on its curve or infinity where none may be, or
            ``nPublic`` disagrees with ``IC``.
    """
    reader = _Reader(document, name)
    reader.check_kind()
    ic = reader.part("IC")
    n_public = reader.part("nPublic")
    if not isinstance(ic, list) or not ic:
        reader.fail("IC must be a list of at least one point")
    if isinstance(n_public, bool) or not isinstance(n_public, int) or n_public != len(ic) - 1:
        reader.fail(f"nPublic must be {len(ic) - 1}, one less than the points of IC, and is {str(n_public)[:40]}")
    key = VerificationKey(
        alpha1=reader.g1("vk_alpha_1"),
        beta2=reader.g2("vk_beta_2"),
        gamma2=reader.g2("vk_gamma_2"),
        delta2=reader.g2("vk_delta_2"),
        ic=[reader.g1_value(point, f"IC[{i}]") for i, point in enumerate(ic)],
    )
    for title in ("alpha1", "beta2", "gamma2", "delta2"):
        if getattr(key, title) is None:
            reader.fail(f"{title} is infinity: such a key accepts everything or nothing")
    return key


def read_public(document: Any, name: str) -> list[int]:
    """Check public.json: a list of decimal strings below r.

    Raises:
        InputError: It is something else. A value of r or above is refused, as it would stand for another one.
    """
    reader = _Reader(document, name)
    if not isinstance(document, list):
        reader.fail("it must be a list of decimal strings")
    return [reader.number(value, f"value {i}", R, "r") for i, value in enumerate(document)]


class _Reader:
    """Takes numbers and points out of a document, and says where one is wrong."""

    def __init__(self, document: Any, name: str) -> None:
        self.document = document
        self.name = name

    def fail(self, message: str) -> NoReturn:
        raise InputError("json-malformed", f"{self.name}: {message}")

    def part(self, key: str) -> Any:
        if not isinstance(self.document, dict):
            self.fail("it must be a JSON object")
        if key not in self.document:
            self.fail(f"{key} is missing")
        return self.document[key]

    def check_kind(self) -> None:
        protocol, curve = self.part("protocol"), self.part("curve")
        if protocol != PROTOCOL:
            self.fail(f"the protocol is {str(protocol)[:40]!r}, and {PROTOCOL!r} is the one that is understood")
        if not isinstance(curve, str) or curve.lower() not in CURVE_NAMES:
            self.fail(f"the curve is {str(curve)[:40]!r}, and {CURVE!r} is the one that is understood")

    def number(self, value: Any, where: str, modulus: int = P, modulus_name: str = "p") -> int:
        if not isinstance(value, str) or not _DECIMAL.match(value):
            self.fail(f"{where} must be a decimal string, and is {str(value)[:40]!r}")
        if (number := int(value)) >= modulus:
            self.fail(f"{where} is not below {modulus_name}")
        return number

    def pair(self, value: Any, where: str) -> tuple[int, int]:
        if not isinstance(value, list) or len(value) != 2:
            self.fail(f"{where} must be a list of two decimal strings")
        return self.number(value[0], f"{where}[0]"), self.number(value[1], f"{where}[1]")

    def g1(self, key: str) -> G1Point:
        return self.g1_value(self.part(key), key)

    def g1_value(self, value: Any, where: str) -> G1Point:
        if value == _G1_INFINITY:
            return None
        if not isinstance(value, list) or len(value) != 3 or value[2] != "1":
            self.fail(f'{where} must be [x, y, "1"], or ["0", "1", "0"] for infinity')
        x, y = self.number(value[0], f"{where}[0]"), self.number(value[1], f"{where}[1]")
        if (y * y - x * x * x - 4) % P:
            self.fail(f"{where} is not on the curve G1")
        return x, y

    def g2(self, key: str) -> G2Point:
        value = self.part(key)
        if value == _G2_INFINITY:
            return None
        if not isinstance(value, list) or len(value) != 3 or value[2] != ["1", "0"]:
            self.fail(f'{key} must be [[x0, x1], [y0, y1], ["1", "0"]]')
        x, y = self.pair(value[0], f"{key}[0]"), self.pair(value[1], f"{key}[1]")
        # y^2 = x^3 + 4 (1 + u) with u^2 = -1, by real and imaginary part
        real = y[0] ** 2 - y[1] ** 2 - (x[0] ** 3 - 3 * x[0] * x[1] ** 2) - 4
        imaginary = 2 * y[0] * y[1] - (3 * x[0] ** 2 * x[1] - x[1] ** 3) - 4
        if real % P or imaginary % P:
            self.fail(f"{key} is not on the curve G2")
        return x, y
