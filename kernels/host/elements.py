"""Arrays of Fr element by element: changes of number domain, and products, on one thread of the host or on several."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from kernels.host.library import load_library
from kernels.interface import FrMont, FrMontTwice, FrPlain
from kernels.moduli import R

if TYPE_CHECKING:
    from kernels.interface import Limbs

_FR = 0  # the fields and operations of cuzkops_field, see kernels/src/host/arithmetic.cpp
_MULTIPLY, _TO_MONTGOMERY, _TO_PLAIN = 2, 6, 7
_AT_ONCE = 2**16


def to_plain(values: FrMont, threads: int = 1) -> FrPlain:
    """Take the factor R out of n elements."""
    return FrPlain(_apply(_TO_PLAIN, values.limbs, values.limbs, threads))


def to_montgomery_twice(values: FrPlain, threads: int = 1) -> FrMontTwice:
    """Multiply n elements by R^2: the form of coefficients in zkey files."""
    once = _apply(_TO_MONTGOMERY, values.limbs, values.limbs, threads)
    return FrMontTwice(_apply(_TO_MONTGOMERY, once, once, threads))


def products(left: FrMont, right: FrMont) -> FrMont:
    """Multiply n elements with n others.

    Raises:
        ValueError: There are not as many of one as of the other.
    """
    if len(left) != len(right):
        raise ValueError(f"{len(left)} elements and {len(right)}")
    return FrMont(_apply(_MULTIPLY, left.limbs, right.limbs))


def scaled(values: FrMont, factor: FrPlain, threads: int = 1) -> FrPlain:
    """Multiply n elements with one: the product of a Montgomery element and a plain one is plain.

    Raises:
        ValueError: There is not one factor.
    """
    if len(factor) != 1:
        raise ValueError(f"one factor, not {len(factor)}")
    return FrPlain(_apply(_MULTIPLY, values.limbs, np.repeat(factor.limbs, len(values), axis=0), threads))


def powers(base: int, n: int, threads: int = 1) -> FrMont:
    """Make 1, base, base^2, .. base^(n - 1), in as many steps as n has bits.

    Args:
        base: A plain number below r.
        n: How many, at least 1.
        threads: That work at the same time.
    """
    out = np.empty((n, 4), dtype=np.uint64)
    out[0] = _montgomery(1)
    done = 1
    while done < n:
        more = min(done, n - done)
        factor = np.broadcast_to(_montgomery(pow(base, done, R)), (more, 4))
        out[done : done + more] = _apply(_MULTIPLY, out[:more], np.ascontiguousarray(factor), threads)
        done += more
    return FrMont(out)


def _montgomery(number: int) -> Limbs:
    return np.frombuffer((number * 2**256 % R).to_bytes(32, "little"), dtype="<u8")


def _apply(operation: int, left: Limbs, right: Limbs, threads: int = 1) -> Limbs:
    out = np.empty_like(left)
    call = load_library().call_with_best_leaf

    def work(begin: int) -> None:
        piece = slice(begin, begin + _AT_ONCE)
        call("cuzkops_field", _FR, operation, left[piece], right[piece], len(left[piece]), out[piece])

    begins = range(0, len(left), _AT_ONCE)
    if threads > 1 and len(begins) > 1:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, begins))
    else:
        for begin in begins:
            work(begin)
    return out
