"""What a file says of itself: format, curve, counts and sections, of any curve; elements and points are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prover.errors import InputError
from prover.formats import ptau, r1cs, wtns, zkey
from prover.formats.container import Container
from prover.formats.field import curve_name
from prover.formats.prime import read_prime
from prover.formats.snarkjs import (
    CURVE_NAMES,
    load_document,
    read_proof,
    read_public,
    read_verification_key,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Facts = dict[str, Any]

_NOTHING_KNOWN = "no .zkey, .wtns, .r1cs or .ptau file, and no proof, verification key or list of public values"
_ZKEY_TITLES = {
    1: "protocol",
    2: "header",
    3: "IC",
    4: "coefficients",
    5: "A",
    6: "B1",
    7: "B2",
    8: "C",
    9: "H",
    10: "contributions",
}
_R1CS_TITLES = {1: "header", 2: "constraints", 3: "labels", 4: "custom gates", 5: "uses of custom gates"}
_WTNS_TITLES = {1: "header", 2: "values"}


def describe(path: Path) -> Facts:
    """Describe a file.

    Args:
        path: A .zkey, .wtns, .r1cs or .ptau file, or one of the JSON documents of snarkjs.

    Returns:
        JSON-able facts: ``format``, ``curve`` and what the format has; ``sections`` for those that have them.

    Raises:
        InputError: It cannot be read, is none of these, or its lengths and counts do not agree.
    """
    magic = _magic(path)
    if magic in _CONTAINERS:
        version, facts_of, titles = _CONTAINERS[magic]
        with Container(path, magic, version) as file:
            facts = {"format": magic, "version": version, **facts_of(file)}
            names = {} if facts.get("protocol", "groth16") != "groth16" else titles
            return {**facts, "file_bytes": file.n_bytes, "sections": _sections(file, names)}
    if magic.lstrip(" \t\r\n")[:1] not in {"[", "{", ""}:
        raise InputError("file-unknown", f"{path} is {_NOTHING_KNOWN}: expected one of them, found {magic!r} at byte 0")
    return _document_facts(load_document(path), str(path))


def render(facts: Facts) -> str:
    """Write facts for people: a line each, and a table of the sections."""
    width = max(map(len, facts))
    lines = [f"{name:{width}}  {_text(value)}" for name, value in facts.items() if name != "sections"]
    for section in facts.get("sections", []):
        copies = f", {section['copies']} times: the first counts" if section["copies"] > 1 else ""
        lines.append(
            f"section {section['type']:<2} {section['title']:24} {section['bytes']:>14} bytes "
            f"at {section['offset']}{copies}"
        )
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _magic(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError("file-unreadable", f"{path} cannot be read: it is {_what(path)}")
        with path.open("rb") as file:
            return file.read(4).decode("latin-1")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError("file-unreadable", f"{path} cannot be read: {reason}") from None


def _what(path: Path) -> str:
    return "not a regular file" if path.exists() else "not there"


def _sections(file: Container, titles: dict[int, str]) -> list[Facts]:
    return [
        {
            "type": kind,
            "title": titles.get(kind, "unknown"),
            "offset": section.offset,
            "bytes": section.n_bytes,
            "copies": section.n_copies,
        }
        for kind, section in sorted(file.sections.items(), key=lambda item: item[1].offset)
    ]


def _zkey_facts(file: Container) -> Facts:
    protocol = zkey.read_protocol(file)
    name = zkey.PROTOCOLS.get(protocol)
    if name is None:
        file.mismatch("section 1 (protocol)", file.section(1, "protocol").offset, list(zkey.PROTOCOLS), protocol)
    if protocol != 1:  # its header starts with the same primes
        prime = read_prime(file, file.section(2, "header"), 0, "header")
        return {"protocol": name.lower(), "curve": curve_name(prime.value)}
    counts = zkey.read_counts(file)
    return {
        "protocol": "groth16",
        "curve": curve_name(counts.base.value),
        "n_vars": counts.n_vars,
        "n_public": counts.n_public,
        "domain_size": counts.domain_size,
        "n_coefficients": counts.n_coefficients,
    }


def _wtns_facts(file: Container) -> Facts:
    header = wtns.read_header(file)
    return {"curve": curve_name(header.prime.value), "n_witness": header.n_witness}


def _r1cs_facts(file: Container) -> Facts:
    header = r1cs.read_header(file)
    return {
        "curve": curve_name(header.prime.value),
        "n_constraints": header.n_constraints,
        "n_wires": header.n_wires,
        "n_public_outputs": header.n_public_outputs,
        "n_public_inputs": header.n_public_inputs,
        "n_private_inputs": header.n_private_inputs,
        "n_labels": header.n_labels,
        "domain_size": header.domain_size,
    }


def _ptau_facts(file: Container) -> Facts:
    header = ptau.read_header(file)
    return {
        "curve": curve_name(header.prime.value),
        "power": header.power,
        "ceremony_power": header.ceremony_power,
        "n_contributions": header.n_contributions,
        "prepared": header.prepared,
    }


_CONTAINERS: dict[str, tuple[int, Callable[[Container], Facts], dict[int, str]]] = {
    "zkey": (zkey.VERSION, _zkey_facts, _ZKEY_TITLES),
    "wtns": (wtns.VERSION, _wtns_facts, _WTNS_TITLES),
    "r1cs": (r1cs.VERSION, _r1cs_facts, _R1CS_TITLES),
    "ptau": (ptau.VERSION, _ptau_facts, ptau.TITLES),
}


def _document_facts(document: Any, name: str) -> Facts:
    if isinstance(document, list):
        return {"format": "public", "n_public": len(read_public(document, name))}
    kinds = {"pi_a": "proof", "IC": "verification key"}
    kind = next((kinds[key] for key in kinds if isinstance(document, dict) and key in document), None)
    if kind is None:
        raise InputError("file-unknown", f"{name} is {_NOTHING_KNOWN}")
    curve, protocol = document.get("curve"), document.get("protocol")
    if not isinstance(curve, str) or not isinstance(protocol, str):
        raise InputError("json-malformed", f"{name}: a {kind} must name its protocol and its curve")
    curve, protocol = curve[:40], protocol[:40]
    facts: Facts = {"format": kind, "protocol": protocol, "curve": "BN254" if curve in {"bn128", "bn254"} else curve}
    if curve.lower() in CURVE_NAMES and protocol == "groth16":
        facts["curve"] = "BLS12-381"
        if kind == "proof":
            read_proof(document, name)
        else:
            facts["n_public"] = read_verification_key(document, name).n_public
    return facts
