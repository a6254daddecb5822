"""Ways to spoil a file: bytes, lengths, sections and field elements of a container, values of a JSON document."""

from __future__ import annotations

import copy
import json
import struct
from typing import TYPE_CHECKING, Any

from prover.formats.field import P, R

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HEAD = 12
WORDS = [0, 1, 2, 3, 7, 8, 31, 32, 33, 48, 63, 64, 65, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**28, 2**29, 2**31 - 1]
WORDS += [2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]
LONGS = [0, 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 12, 2**64 - 1]
BN254_P = 21888242871839275222246405745257275088696311157297823662689037894645226208583
BN254_R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
ELEMENTS = [0, 1, 2, R - 1, R, R + 1, P - 1, P, P + 1, BN254_P, BN254_R, 2**255, 2**256 - 1, 2**384 - 1]
STRINGS = [
    "",
    "0",
    "1",
    "-1",
    " 1",
    "1\n",
    "0x1",
    "1e5",
    "01",
    "\u0665",
    "9" * 5000,
    "null",
    "bn128",
    "BLS12381",
    "plonk",
]
STRINGS += [str(value) for value in ELEMENTS]
DEEP = 100_000


def mutate(data: bytes, rng: random.Random, others: list[bytes], *, is_json: bool) -> bytes:
    """Spoil a file in one to four ways."""
    for _ in range(rng.choice([1, 1, 1, 2, 2, 4])):
        if is_json and rng.random() < 0.7:
            data = _spoil_json(data, rng)
        elif not is_json and rng.random() < 0.6:
            data = rng.choice(SECTIONS_AND_NUMBERS)(data, rng)
        else:
            data = _spoil_bytes(data, rng, others)
    return data


def _spoil_bytes(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    at, size = rng.randrange(len(data) + 1), rng.choice([1, 1, 2, 4, 8, 32, 100])
    other = rng.choice(others)
    flipped = bytearray(data or b"\0")
    flipped[min(at, len(flipped) - 1)] ^= 1 << rng.randrange(8)
    return rng.choice(
        [
            bytes(flipped),
            data[:at] + rng.randbytes(size) + data[at + size :],
            data[:at],
            data + rng.randbytes(size),
            data[:at] + data[at + size :],
            data[:at] + data[at : at + size] + data[at:],
            data[:at] + other[rng.randrange(len(other)) :],
        ]
    )


def _sections(data: bytes) -> list[tuple[int, bytes]]:
    """The sections as far as they can be followed."""
    sections: list[tuple[int, bytes]] = []
    at = HEAD
    while at + HEAD <= len(data) and len(sections) < 100:
        kind, n_bytes = struct.unpack_from("<IQ", data, at)
        sections.append((kind, data[at + HEAD : at + HEAD + n_bytes]))
        at += HEAD + n_bytes
    return sections


def _joined(data: bytes, sections: list[tuple[int, bytes]]) -> bytes:
    parts = [data[:8].ljust(8, b"\0"), struct.pack("<I", len(sections))]
    for kind, payload in sections:
        parts += [struct.pack("<IQ", kind & 0xFFFFFFFF, len(payload)), payload]
    return b"".join(parts)


def _change_sections(data: bytes, rng: random.Random) -> bytes:
    """Another order, one more or one less, another type, another length: everything else stays sound."""
    sections = _sections(data)
    if not sections:
        return data
    i, j = rng.randrange(len(sections)), rng.randrange(len(sections))
    kind, payload = sections[i]
    way = rng.randrange(7)
    if way == 0:
        rng.shuffle(sections)
    elif way == 1:
        del sections[i]
    elif way == 2:
        sections.insert(j, (kind, payload))
    elif way == 3:
        sections.insert(j, (kind, rng.randbytes(len(payload) % 1000)))
    elif way == 4:
        sections[i] = (rng.choice([*range(18), 2**32 - 1]), payload)
    elif way == 5:
        sections[i] = (kind, payload[: rng.randrange(len(payload) + 1)])
    else:
        sections[i] = (kind, payload + rng.randbytes(rng.choice([1, 4, 32, 96])))
    return _joined(data, sections)


def _set_in_section(data: bytes, rng: random.Random, value: bytes, step: int, below: int | None = None) -> bytes:
    sections = _sections(data)
    large = [i for i, (_, payload) in enumerate(sections) if len(payload) >= len(value)]
    if not large:
        return data
    i = rng.choice(large)
    kind, payload = sections[i]
    room = len(payload) - len(value)
    at = rng.randrange(min(room, below or room) // step + 1) * step
    sections[i] = (kind, payload[:at] + value + payload[at + len(value) :])
    return _joined(data, sections)


def _set_word(data: bytes, rng: random.Random) -> bytes:
    return _set_in_section(data, rng, struct.pack("<I", rng.choice(WORDS)), 4, rng.choice([None, 128]))


def _set_element(data: bytes, rng: random.Random) -> bytes:
    value = rng.choice(ELEMENTS)
    n_bytes = rng.choice([32, 48, 48])
    if value >= 1 << (8 * n_bytes):
        n_bytes = 48
    return _set_in_section(data, rng, value.to_bytes(n_bytes, "little"), 4)


def _move_point(data: bytes, rng: random.Random) -> bytes:
    """Put one point in the place of another, or infinity: a key that is wrong, and sound to look at."""
    n_bytes = rng.choice([96, 192])
    points = [payload[i : i + n_bytes] for _, payload in _sections(data) for i in range(0, len(payload), n_bytes)]
    whole = [point for point in points if len(point) == n_bytes] or [bytes(n_bytes)]
    return _set_in_section(data, rng, rng.choice([bytes(n_bytes), rng.choice(whole)]), n_bytes)


def _set_head(data: bytes, rng: random.Random) -> bytes:
    """Change a number of the index: version, count, or type or length of a section."""
    at = HEAD
    places = [(4, 4), (8, 4)]
    for _, payload in _sections(data):
        places += [(at, 4), (at + 4, 8)]
        at += HEAD + len(payload)
    where, width = rng.choice(places)
    value = rng.choice(WORDS if width == 4 else LONGS)
    return data[:where] + value.to_bytes(width, "little") + data[where + width :]


SECTIONS_AND_NUMBERS: list[Callable[[bytes, random.Random], bytes]] = [
    _change_sections,
    _set_word,
    _set_element,
    _move_point,
    _set_head,
]


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        found += _places(child, (*path, key))
    return found


def _spoil_json(data: bytes, rng: random.Random) -> bytes:
    try:
        document = json.loads(data)
        place = rng.choice(_places(document))
    except (ValueError, RecursionError):
        return data
    if not place:
        return rng.choice([b"[" * DEEP, b'{"a":' * DEEP, json.dumps([document]).encode(), b"7", b"{}", b"[]", b"NaN"])
    document = copy.deepcopy(document)
    parent = document
    for key in place[:-1]:
        parent = parent[key]
    others: list[Any] = [None, True, 0, -1, 1, 1.5, 10**30, float("nan"), [], {}, [[]], "1", *STRINGS]
    way = rng.randrange(5)
    if way == 0:
        del parent[place[-1]]
    elif way == 1 and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[place[-1]]))
    elif way == 2:
        parent[place[-1]] = copy.deepcopy(_value_at(document, rng.choice(_places(document))))
    else:
        parent[place[-1]] = rng.choice(others)
    try:
        return json.dumps(document).encode()
    except (ValueError, RecursionError):
        return data


def _value_at(document: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        document = document[key]
    return document
