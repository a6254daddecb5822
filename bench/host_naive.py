"""A plain Groth16 prover in Python with py_arkworks_bls12381: the peer that a user could write in an afternoon.

``python bench/host_naive.py ZKEY WTNS PROOF PUBLIC`` reads a snarkjs .zkey and .wtns, transforms with lists of Python
integers, and multiplies with the library's ``multiexp_unchecked``. One thread. It checks nothing.
"""

from __future__ import annotations

import json
import secrets
import struct
import sys
from pathlib import Path
from typing import Any

import py_arkworks_bls12381 as arkworks

P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
R = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
FP_OUT = pow(2**384, -1, P)
FR_OUT_TWICE = pow(2**512, -1, R)


def sections(data: bytes) -> dict[int, memoryview]:
    """Index the sections of a file by their type."""
    found, at = {}, 12
    for _ in range(struct.unpack_from("<I", data, 8)[0]):
        kind, length = struct.unpack_from("<IQ", data, at)
        found[kind] = memoryview(data)[at + 12 : at + 12 + length]
        at += 12 + length
    return found


def integers(raw: memoryview, size: int) -> list[int]:
    """Read little-endian integers of ``size`` bytes."""
    return [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]


def points(raw: memoryview, kind: Any, width: int) -> list[Any]:
    """Make points of the library from Montgomery coordinates."""
    plain = b"".join((x * FP_OUT % P).to_bytes(48, "little") for x in integers(raw, 48))
    return [kind.from_xy_bytes_unchecked_le(plain[i : i + width]) for i in range(0, len(plain), width)]


def ntt(values: list[int], roots: list[int]) -> list[int]:
    """Transform by halves: Cooley and Tukey."""
    n = len(values)
    if n == 1:
        return values
    even, odd = ntt(values[::2], roots[::2]), ntt(values[1::2], roots[::2])
    product = [x * w % R for x, w in zip(odd, roots, strict=False)]
    low = [x + y for x, y in zip(even, product, strict=True)]
    return low + [x - y for x, y in zip(even, product, strict=True)]


def powers(base: int, n: int) -> list[int]:
    """List base^0 to base^(n-1)."""
    out = [1] * n
    for i in range(1, n):
        out[i] = out[i - 1] * base % R
    return out


def odd_values(values: list[int]) -> list[int]:
    """Take values on the domain to values on the odd points of the double domain."""
    n = len(values)
    root = pow(5, (R - 1) // (2 * n), R)
    roots, shift, scale = powers(root * root % R, n // 2), powers(root, n), pow(n, -1, R)
    inverse_roots = powers(pow(root, -2, R), n // 2)
    coefficients = [x * scale % R * s % R for x, s in zip(ntt(values, inverse_roots), shift, strict=True)]
    return ntt(coefficients, roots)


def scalars(values: list[int]) -> list[Any]:
    """Make scalars of the library."""
    return [arkworks.Scalar.from_le_bytes((x % R).to_bytes(32, "little")) for x in values]


def coordinates(point: Any) -> list[str]:
    """Write the coordinates of a point in decimal."""
    return [str(x) for x in integers(memoryview(bytes(point.to_xy_bytes_le())), 48)]


def prove(zkey: Path, wtns: Path) -> tuple[dict[str, Any], list[str]]:
    """Prove as snarkjs does: proof.json and public.json."""
    key = sections(zkey.read_bytes())
    w = integers(sections(wtns.read_bytes())[2], 32)
    n_public, n = struct.unpack_from("<II", key[2], 4 + 48 + 4 + 32 + 4)
    single = key[2][4 + 48 + 4 + 32 + 12 :]
    g1, g2 = arkworks.G1Point, arkworks.G2Point
    alpha1, beta1 = points(single[:192], g1, 96)
    beta2 = points(single[192:384], g2, 192)[0]
    delta1, delta2 = points(single[576:672], g1, 96)[0], points(single[672:864], g2, 192)[0]
    rows = [[0] * n, [0] * n]
    for matrix, row, wire, value in struct.iter_unpack("<III32s", key[4][4:]):
        rows[matrix][row] += int.from_bytes(value, "little") * FR_OUT_TWICE % R * w[wire]
    a, b = ([x % R for x in values] for values in rows)
    c = [x * y % R for x, y in zip(a, b, strict=True)]
    h = [x * y - z for x, y, z in zip(*(odd_values(v) for v in (a, b, c)), strict=True)]
    witness = scalars(w)
    r, s = secrets.randbelow(R), secrets.randbelow(R)
    mr, ms, mrs = scalars([r, s, r * s])
    pi_a = alpha1 + g1.multiexp_unchecked(points(key[5], g1, 96), witness) + delta1 * mr
    pi_b = beta2 + g2.multiexp_unchecked(points(key[7], g2, 192), witness) + delta2 * ms
    b1 = beta1 + g1.multiexp_unchecked(points(key[6], g1, 96), witness) + delta1 * ms
    pi_c = g1.multiexp_unchecked(points(key[8], g1, 96), witness[n_public + 1 :])
    pi_c = pi_c + g1.multiexp_unchecked(points(key[9], g1, 96), scalars(h))
    pi_c = pi_c + pi_a * ms + b1 * mr - delta1 * mrs
    x0, x1, y0, y1 = coordinates(pi_b)
    proof = {
        "pi_a": [*coordinates(pi_a), "1"],
        "pi_b": [[x0, x1], [y0, y1], ["1", "0"]],
        "pi_c": [*coordinates(pi_c), "1"],
        "protocol": "groth16",
        "curve": "bls12381",
    }
    return proof, [str(x) for x in w[1 : n_public + 1]]


def main() -> None:
    """Prove from the command line."""
    zkey, wtns, proof_path, public_path = (Path(argument) for argument in sys.argv[1:5])
    proof, public = prove(zkey, wtns)
    proof_path.write_text(json.dumps(proof))
    public_path.write_text(json.dumps(public))


if __name__ == "__main__":
    main()
