"""Medians, ratios and their intervals, against the tables of the books."""

from __future__ import annotations

import random

import pytest

from cuzkops.timing import samples
from cuzkops.timing.samples import Median, median, ratio


# Ranks of the 95 % interval of a median: Conover 1999, table A3, as n -> rank from both ends.
@pytest.mark.parametrize(
    ("n", "rank"), [(1, 0), (5, 0), (6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6), (25, 8), (40, 14), (50, 18)]
)
def test_the_ranks_of_a_median(n: int, rank: int) -> None:
    assert samples._median_rank(n) == rank


# Two-sided 5 % critical values of Mann and Whitney: U up to this is rejected; -1 where none is.
@pytest.mark.parametrize(
    ("m", "n", "critical"),
    [(3, 3, -1), (3, 5, 0), (4, 4, 0), (5, 5, 2), (5, 10, 8), (8, 8, 13), (10, 10, 23), (12, 20, 69), (20, 20, 127)],
)
def test_the_ranks_of_pairs(m: int, n: int, critical: int) -> None:
    assert samples._pair_rank(m, n) == critical + 1
    assert samples._pair_rank(n, m) == critical + 1


def test_every_order_of_two_sets_is_counted_once() -> None:
    assert samples._mann_whitney_counts(2, 3) == [1, 1, 2, 2, 2, 1, 1]
    assert sum(samples._mann_whitney_counts(7, 9)) == 11440


def test_the_approximations_meet_the_exact_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = {n: samples._median_rank(n) for n in (50, 120, 200)}, samples._pair_rank(50, 45)
    monkeypatch.setattr(samples, "_EXACT_UP_TO", 10)
    near = {n: samples._median_rank(n) for n in (50, 120, 200)}, samples._pair_rank(50, 45)
    assert all(abs(exact[0][n] - near[0][n]) <= 1 for n in exact[0])
    assert abs(exact[1] - near[1]) <= 3
    assert samples._pair_rank(0, 9) == 0


def test_a_median_says_how_many_there_are() -> None:
    assert median([]) is None
    assert median([3.0]) == Median(1, 3.0, None, None)
    assert median([6.0, 1.0, 2.0, 5.0, 3.0, 4.0]) == Median(6, 3.5, 1.0, 6.0)


def test_a_ratio_needs_samples_and_positive_ones() -> None:
    assert ratio([1.0] * 3, [2.0] * 3) is None
    assert ratio([1.0] * 9, [0.0, *[1.0] * 8]) is None
    found = ratio([10.0, 11.0, 12.0, 13.0, 14.0], [20.0, 22.0, 24.0, 26.0, 28.0])
    assert found is not None
    assert found.value == 2
    assert found.low < 2 < found.high
    assert found.is_shown


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    seed = 20261129
    rng = random.Random(seed)
    n_runs, held, covered = 400, 0, 0
    for _ in range(n_runs):
        old = [rng.lognormvariate(0, 0.3) for _ in range(12)]
        new = [1.1 * rng.lognormvariate(0, 0.3) for _ in range(15)]
        found, middle = ratio(old, new), median(old)
        assert found
        assert middle
        assert middle.low is not None
        assert middle.high is not None
        held += found.low <= 1.1 <= found.high
        covered += middle.low <= 1 <= middle.high
    assert held >= 0.92 * n_runs, seed
    assert covered >= 0.92 * n_runs, seed


def test_many_samples_are_thinned_and_still_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    old = [rng.gauss(100, 5) for _ in range(300)]
    new = [rng.gauss(110, 5) for _ in range(300)]
    whole = ratio(old, new)
    monkeypatch.setattr(samples, "_MOST", 100)
    thinned = ratio(old, new)
    assert whole
    assert thinned
    assert abs(whole.value - thinned.value) < 0.005
    assert thinned.high - thinned.low >= whole.high - whole.low
