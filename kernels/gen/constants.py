"""Writes ``kernels/src/include/constants.hpp`` from the two moduli: ``python -m kernels.gen.constants [--check]``.

Only p, r, the curve's b and the non-residue 5 are given here; every other number is computed. A test fails when the
file in the tree differs from what this module writes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# BLS12-381: https://www.ietf.org/archive/id/draft-irtf-cfrg-pairing-friendly-curves-11.html section 4.2.1
P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
R = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
CURVE_B = 4  # E: y^2 = x^3 + 4, E': y^2 = x^3 + 4 (1 + u)
ROOT_GENERATOR = 5  # snarkjs takes the smallest quadratic non-residue of Fr; others take 7
FR_TWO_ADICITY = 32

HEADER = Path(__file__).parent.parent / "src" / "include" / "constants.hpp"


def limbs(value: int, n: int) -> list[int]:
    """Split a number below 2^(64 n) into n little-endian 64-bit limbs."""
    return [(value >> (64 * i)) & (2**64 - 1) for i in range(n)]


def _array(name: str, value: int, n: int, comment: str) -> str:
    words = ", ".join(f"0x{limb:016x}ull" for limb in limbs(value, n))
    return f"inline constexpr std::uint64_t {name}[{n}] = {{{words}}}; // {comment}"


def _field(prefix: str, modulus: int, n: int) -> list[str]:
    radix = 2 ** (64 * n)
    inverse = -pow(modulus, -1, 2**64) % 2**64
    return [
        _array(f"{prefix}_MODULUS", modulus, n, "the modulus"),
        _array(f"{prefix}_ONE", radix % modulus, n, f"R mod the modulus, R = 2^{64 * n}: the number 1"),
        _array(f"{prefix}_R2", radix * radix % modulus, n, "R^2: takes a plain number into Montgomery form"),
        _array(f"{prefix}_MINUS_TWO", modulus - 2, n, "modulus - 2, plain: the exponent of an inversion"),
        f"inline constexpr std::uint64_t {prefix}_INV = 0x{inverse:016x}ull; // -1 / modulus mod 2^64",
    ]


def header() -> str:
    """Return the text of constants.hpp."""
    fr_radix, fp_radix = 2**256, 2**384
    root = pow(ROOT_GENERATOR, (R - 1) >> FR_TWO_ADICITY, R)
    if pow(root, 2 ** (FR_TWO_ADICITY - 1), R) != R - 1:
        raise ArithmeticError(f"{ROOT_GENERATOR} does not give a root of order 2^{FR_TWO_ADICITY}")
    lines = [
        "// Written by kernels/gen/constants.py from the moduli of BLS12-381: change that file, not this one.",
        "#pragma once",
        "#include <cstdint>",
        "",
        "namespace cuzkops::constants {",
        "",
        "// Scalar field Fr, 4 limbs.",
        *_field("FR", R, 4),
        f"inline constexpr unsigned FR_TWO_ADICITY = {FR_TWO_ADICITY};",
        _array("FR_ROOT", root * fr_radix % R, 4, f"{ROOT_GENERATOR}^((r-1)/2^{FR_TWO_ADICITY}), Montgomery"),
        _array("FR_HALF", pow(2, -1, R) * fr_radix % R, 4, "1/2, Montgomery"),
        "",
        "// Base field Fp, 6 limbs.",
        *_field("FP", P, 6),
        _array("FP_CURVE_B", CURVE_B * fp_radix % P, 6, "b of y^2 = x^3 + b, Montgomery; b of the twist is b (1 + u)"),
        "",
        "} // namespace cuzkops::constants",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the header, or with ``--check`` only compare: 1 where it differs."""
    parser = argparse.ArgumentParser(prog="python -m kernels.gen.constants", description="Write constants.hpp.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the file differs")
    if not parser.parse_args(arguments).check:
        HEADER.write_text(header(), encoding="ascii")
    elif not HEADER.is_file() or HEADER.read_text(encoding="ascii") != header():
        sys.stderr.write(f"{HEADER} differs from what its generator writes: run python -m kernels.gen.constants\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
