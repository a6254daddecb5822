"""What a backend gives to whoever wants many multiples of one point."""

from __future__ import annotations

from typing import Protocol, TypeVar

from kernels.interface import FrPlain, G1Affine, G2Affine

PointsT_co = TypeVar("PointsT_co", G1Affine, G2Affine, covariant=True)


class FixedBase(Protocol[PointsT_co]):
    """One point, ready to be multiplied with many scalars."""

    def multiples(self, scalars: FrPlain) -> PointsT_co:
        """Return scalars[i] * point for n scalars below r, where the scalars are."""
