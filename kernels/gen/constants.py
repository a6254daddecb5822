"""Writes ``kernels/src/include/constants.hpp`` from the two moduli: ``python -m kernels.gen.constants [--check]``.

Only the moduli, the curve's b, its parameter z and the non-residue 5 are given; every other number is computed. A test
fails when the file in the tree differs from what this module writes. ``kernels.gen.x86`` is written and checked along
with it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernels.gen import x86
from kernels.moduli import P, R

Z = 0xD201000000010000  # |z|; z itself is negative, and r = z^4 - z^2 + 1
CURVE_B = 4  # E: y^2 = x^3 + 4, E': y^2 = x^3 + 4 (1 + u)
ROOT_GENERATOR = 5  # snarkjs takes the smallest quadratic non-residue of Fr
OTHER_ROOT_GENERATOR = 7  # arkworks, blst, bellman and gnark take this one
FR_TWO_ADICITY = 32

Fp2 = tuple[int, int]

HEADER = Path(__file__).parent.parent / "src" / "include" / "constants.hpp"


def limbs(value: int, n: int) -> list[int]:
    """Split a number below 2^(64 n) into n little-endian 64-bit limbs."""
    return [(value >> (64 * i)) & (2**64 - 1) for i in range(n)]


def _words(value: int, n: int) -> str:
    return ", ".join(f"0x{limb:016x}ull" for limb in limbs(value, n))


def _function(name: str, value: int, n: int, comment: str) -> list[str]:
    return [
        f"    // {comment}",
        f"    CUZKOPS_FN static constexpr std::uint64_t {name}(int i) {{",
        f"        constexpr std::uint64_t words[{n}] = {{{_words(value, n)}}};",
        "        return words[i];",
        "    }",
    ]


def _modulus(name: str, modulus: int, n: int) -> list[str]:
    radix = 2 ** (64 * n)
    inverse = -pow(modulus, -1, 2**64) % 2**64
    array = f"{name.upper()}_WORDS"
    return [
        f"inline constexpr std::uint64_t {array}[{n + 1}] = {{{_words(modulus, n)}, 0x{inverse:016x}ull}};",
        f"struct {name}Modulus {{",
        f"    static constexpr int N = {n};",
        f"    static constexpr std::uint64_t INV = 0x{inverse:016x}ull; // -1 / modulus mod 2^64",
        f"    static const std::uint64_t* words() {{ return {array}; }} // the modulus and INV, in the host's memory",
        *_function("modulus", modulus, n, "the modulus"),
        *_function("one", radix % modulus, n, f"R mod the modulus, R = 2^{64 * n}: the number 1"),
        *_function("r2", radix**2 % modulus, n, "R^2: takes a plain number into Montgomery form"),
        *_function("r3", radix**3 % modulus, n, "R^3: takes the inverse of a Montgomery form into Montgomery form"),
        *_function("minus_two", modulus - 2, n, "modulus - 2, plain: the exponent of an inversion"),
        "};",
        "",
    ]


def root_of_unity(generator: int, log2_order: int) -> int:
    """Return generator^((r-1)/2^log2_order), which has that order.

    Raises:
        ArithmeticError: The generator is a square, so that the order is smaller.
    """
    root = pow(generator, (R - 1) >> log2_order, R)
    if log2_order and pow(root, 2 ** (log2_order - 1), R) != R - 1:
        raise ArithmeticError(f"{generator} does not give a root of order 2^{log2_order}")
    return root


def _fp2_mul(a: Fp2, b: Fp2) -> Fp2:
    return (a[0] * b[0] - a[1] * b[1]) % P, (a[0] * b[1] + a[1] * b[0]) % P


def _fp2_pow(a: Fp2, exponent: int) -> Fp2:
    out = (1, 0)
    for bit in f"{exponent:b}":
        out = _fp2_mul(out, out)
        if bit == "1":
            out = _fp2_mul(out, a)
    return out


def endomorphisms() -> dict[str, Fp2]:
    """Constants of the maps that multiply a point of the order-r subgroup by |z| or z^2; tests check both.

    The Frobenius map of the twist, psi(x, y) = (conj(x) cx, conj(y) cy) with cx = (1+u)^(-(p-1)/3) and
    cy = (1+u)^(-(p-1)/2), is multiplication by z on G2 (Galbraith, Scott, "Exponentiation in pairing-friendly groups
    using homomorphisms", 2008); its square takes x to x times the norm of cx and y to -y, and is multiplication by z^2.
    On G1 (beta x, -y) is multiplication by z^2 with beta the other cube root of 1 (Gallant, Lambert, Vanstone, 2001).
    """
    inverse = _fp2_pow((1, 1), P * P - 2)
    cx, cy = _fp2_pow(inverse, (P - 1) // 3), _fp2_pow(inverse, (P - 1) // 2)
    norm = (cx[0] ** 2 + cx[1] ** 2) % P
    return {"cx": cx, "cy": (-cy[0] % P, -cy[1] % P), "g2_beta": (norm, 0), "g1_beta": (norm * norm % P, 0)}


def _constants() -> list[str]:
    fr_radix, fp_radix = 2**256, 2**384
    maps = endomorphisms()

    def fr(name: str, value: int, comment: str) -> list[str]:
        return _function(name, value * fr_radix % R, 4, comment + ", Montgomery")

    def fp(name: str, value: int, comment: str) -> list[str]:
        return _function(name, value * fp_radix % P, 6, comment + ", Montgomery")

    order = 2**FR_TWO_ADICITY
    return [
        "struct Constants {",
        f"    static constexpr unsigned FR_TWO_ADICITY = {FR_TWO_ADICITY};",
        *fr("root5", root_of_unity(5, FR_TWO_ADICITY), f"{ROOT_GENERATOR}^((r-1)/{order})"),
        *fr("root7", root_of_unity(7, FR_TWO_ADICITY), f"{OTHER_ROOT_GENERATOR}^((r-1)/{order})"),
        *fr("half", pow(2, -1, R), "1/2"),
        *fp("curve_b", CURVE_B, "b of y^2 = x^3 + b; b of the twist is b (1 + u)"),
        *fp("g1_beta", maps["g1_beta"][0], "z^2 (x, y) = (beta x, -y) on G1"),
        *fp("g2_beta", maps["g2_beta"][0], "z^2 (x, y) = (beta x, -y) on G2"),
        *fp("psi_x_c1", maps["cx"][1], "|z| (x, y) = (conj(x) cx, conj(y) cy) on G2: cx is this times u"),
        *fp("psi_y_c0", maps["cy"][0], "cy.c0"),
        *fp("psi_y_c1", maps["cy"][1], "cy.c1"),
        f"    static constexpr std::uint64_t Z = 0x{Z:016x}ull; // |z|; z is negative",
        *_function("z2", Z * Z, 2, "z^2, plain"),
        *_function("z2_barrett", 2**255 // (Z * Z), 2, "floor(2^255 / z^2), plain"),
        f"    static constexpr std::uint64_t Z_BARRETT = 0x{2**127 // Z:016x}ull; // floor(2^127 / |z|)",
        "};",
        "",
    ]


def header() -> str:
    """Return the text of constants.hpp."""
    lines = [
        "// Written by kernels/gen/constants.py from the moduli of BLS12-381: change that file, not this one.",
        "#pragma once",
        "#include <cstdint>",
        "",
        '#include "platform.hpp"',
        "",
        "namespace cuzkops {",
        "",
        "// Scalar field.",
        *_modulus("Fr", R, 4),
        "// Base field.",
        *_modulus("Fp", P, 6),
        *_constants(),
        "} // namespace cuzkops",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Write the headers, or with ``--check`` only compare: 1 where one differs."""
    parser = argparse.ArgumentParser(prog="python -m kernels.gen.constants", description="Write the generated headers.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file differs")
    check = parser.parse_args(arguments).check
    status = 0
    for path, text in ((HEADER, header()), (x86.HEADER, x86.header())):
        if not check:
            path.write_text(text, encoding="ascii")
        elif not path.is_file() or path.read_text(encoding="ascii") != text:
            sys.stderr.write(f"{path} differs from what its generator writes: run python -m kernels.gen.constants\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
