"""The three circuits of tests/data/groth16, and containers taken apart and put together again."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernels
from kernels.build import build

if TYPE_CHECKING:
    from kernels.interface import Backend

DATA = Path(__file__).parents[1] / "data" / "groth16"
CIRCUITS = ("mul60", "cube500", "merkle_mimc5")
Sections = dict[int, bytearray]


@cache
def host() -> Backend:
    """The host backend on two threads, compiled when it is missing or old."""
    build()
    return kernels.backend("host", threads=2)


def path_of(circuit: str, name: str) -> Path:
    return DATA / circuit / name


def document(circuit: str, name: str) -> Any:
    return json.loads(path_of(circuit, name).read_text())


def split(raw: bytes) -> Sections:
    """Sections of a container in the order of the file."""
    (n_sections,) = struct.unpack_from("<I", raw, 8)
    sections: Sections = {}
    at = 12
    for _ in range(n_sections):
        kind, n_bytes = struct.unpack_from("<IQ", raw, at)
        sections[kind] = bytearray(raw[at + 12 : at + 12 + n_bytes])
        at += 12 + n_bytes
    assert at == len(raw)
    return sections


def join(magic: str, version: int, sections: Sections) -> bytes:
    parts = [magic.encode(), struct.pack("<II", version, len(sections))]
    for kind, payload in sections.items():
        parts += [struct.pack("<IQ", kind, len(payload)), bytes(payload)]
    return b"".join(parts)


def put_u32(payload: bytearray, offset: int, value: int) -> None:
    struct.pack_into("<I", payload, offset, value)
