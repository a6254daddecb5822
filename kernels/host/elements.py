"""Arrays of Fr element by element, on one thread of the host: changes of number domain, and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.host.library import load_library
from kernels.interface import FrMont, FrMontTwice, FrPlain

if TYPE_CHECKING:
    from kernels.interface import Limbs

_FR = 0  # the fields and operations of cuzkops_field, see kernels/src/host/arithmetic.cpp
_MULTIPLY, _TO_MONTGOMERY, _TO_PLAIN = 2, 6, 7


def to_plain(values: FrMont) -> FrPlain:
    """Take the factor R out of n elements."""
    return FrPlain(_apply(_TO_PLAIN, values.limbs, values.limbs))


def to_montgomery_twice(values: FrPlain) -> FrMontTwice:
    """Multiply n elements by R^2: the form of coefficients in zkey files."""
    once = _apply(_TO_MONTGOMERY, values.limbs, values.limbs)
    return FrMontTwice(_apply(_TO_MONTGOMERY, once, once))


def products(left: FrMont, right: FrMont) -> FrMont:
    """Multiply n elements with n others.

    Raises:
        ValueError: There are not as many of one as of the other.
    """
    if len(left) != len(right):
        raise ValueError(f"{len(left)} elements and {len(right)}")
    return FrMont(_apply(_MULTIPLY, left.limbs, right.limbs))


def scaled(values: FrMont, factor: FrPlain) -> FrPlain:
    """Multiply n elements with one: the product of a Montgomery element and a plain one is plain.

    Raises:
        ValueError: There is not one factor.
    """
    if len(factor) != 1:
        raise ValueError(f"one factor, not {len(factor)}")
    return FrPlain(_apply(_MULTIPLY, values.limbs, np.repeat(factor.limbs, len(values), axis=0)))


def _apply(operation: int, left: Limbs, right: Limbs) -> Limbs:
    out = np.empty_like(left)
    load_library().call_with_best_leaf("cuzkops_field", _FR, operation, left, right, len(left), out)
    return out
