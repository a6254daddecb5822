"""What samples allow to be said: medians with intervals, and how much one set differs from another. Pure.

Both intervals are made of order statistics, so nothing is assumed of the shape of the distribution, and nothing is
random. The interval of a median is that between two of the sorted samples whose ranks the binomial distribution gives
(Conover, Practical Nonparametric Statistics, 3rd edition 1999, section 3.2). The ratio of two sets is the median of
all pairwise ratios, and its interval lies between two of those, whose ranks the Mann-Whitney distribution gives
(Hodges and Lehmann 1963; Hollander, Wolfe and Chicken, Nonparametric Statistical Methods, 3rd edition 2014, section
4.3, on logarithms). Samples of one run count as independent here, which they are only as far as the machine is calm.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CONFIDENCE = 0.95
_EXACT_UP_TO = 50  # samples of a set; above, the normal approximation differs by less than a rank
_MOST = 2000  # of a set in pairs: more are thinned, evenly in their order
_Z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class Median:
    """The median of samples.

    Args:
        n: How many there are.
        value: Their median.
        low: Lower end of its 95 % interval; None where the samples are too few for one (below 6).
        high: Upper end.
    """

    n: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Ratio:
    """How many times larger the values of a second set are.

    Args:
        value: Median of all pairwise ratios.
        low: Lower end of its 95 % interval.
        high: Upper end.
    """

    value: float
    low: float
    high: float

    @property
    def is_shown(self) -> bool:
        """Whether the samples show a difference at all: the interval leaves out 1."""
        return not self.low <= 1 <= self.high


def median(samples: Sequence[float]) -> Median | None:
    """The median with its interval; None without samples."""
    ordered = sorted(samples)
    n = len(ordered)
    if not n:
        return None
    rank = _median_rank(n)
    low, high = (ordered[rank - 1], ordered[n - rank]) if rank else (None, None)
    return Median(n, statistics.median(ordered), low, high)


def ratio(old: Sequence[float], new: Sequence[float]) -> Ratio | None:
    """How many times larger ``new`` is; None where the samples are too few for an interval, or not all positive."""
    olds, news = _thinned(old), _thinned(new)
    rank = _pair_rank(len(olds), len(news))
    if not rank or min(*olds, *news) <= 0:
        return None
    pairs = sorted(b / a for a in olds for b in news)
    return Ratio(statistics.median(pairs), pairs[rank - 1], pairs[len(pairs) - rank])


def _median_rank(n: int) -> int:
    """The largest rank from both ends between which the median lies with the confidence; 0 where none does."""
    if n > 4 * _EXACT_UP_TO:
        return max(0, math.floor((n - _Z * math.sqrt(n)) / 2))
    rank, below = 0, 0
    while True:
        below += math.comb(n, rank)
        if 2 * below > (1 - CONFIDENCE) * 2**n:
            return rank
        rank += 1


def _pair_rank(m: int, n: int) -> int:
    """The same for the median of all pairs of two sets of these sizes."""
    if not m or not n:
        return 0
    if max(m, n) > _EXACT_UP_TO:
        return max(0, math.floor(m * n / 2 - _Z * math.sqrt(m * n * (m + n + 1) / 12)))
    counts, rank, below = _mann_whitney_counts(m, n), 0, 0
    for count in counts:
        below += count
        if 2 * below > (1 - CONFIDENCE) * math.comb(m + n, m):
            break
        rank += 1
    return rank


def _mann_whitney_counts(m: int, n: int) -> list[int]:
    """In how many orders of m and n values the statistic U is 0, 1, ..., mn: the Gaussian binomial coefficient."""
    counts = [1] + [0] * (m * n)
    for i in range(1, m + 1):
        for at in range(m * n, n + i - 1, -1):
            counts[at] -= counts[at - n - i]
        for at in range(i, m * n + 1):
            counts[at] += counts[at - i]
    return counts


def _thinned(samples: Sequence[float]) -> list[float]:
    ordered = sorted(samples)
    if len(ordered) <= _MOST:
        return ordered
    step = (len(ordered) - 1) / (_MOST - 1)
    return [ordered[round(i * step)] for i in range(_MOST)]
