"""The byte budget: fits, never fits, waits, times out."""

from __future__ import annotations

import threading
import time

import pytest

from prover.errors import CapacityError
from prover.memory.budget import MemoryBudget


def test_fits_and_comes_back() -> None:
    budget = MemoryBudget(100)
    with budget.reserve(60, "key a", deadline_s=0):
        assert budget.reserved_bytes == 60
        with budget.reserve(40, "work", deadline_s=0):
            assert budget.reserved_bytes == 100
    assert budget.reserved_bytes == 0


def test_comes_back_after_an_error() -> None:
    budget = MemoryBudget(100)
    with pytest.raises(RuntimeError), budget.reserve(60, "work", deadline_s=0):
        raise RuntimeError
    assert budget.reserved_bytes == 0


def test_never_fits_is_said_at_once() -> None:
    start_s = time.monotonic()
    with pytest.raises(CapacityError, match="never fits: the budget is 100 bytes, nothing is held"):
        MemoryBudget(100).reserve(101, "work", deadline_s=60)
    assert time.monotonic() - start_s < 5


def test_a_refusal_names_who_holds_what() -> None:
    budget = MemoryBudget(100)
    budget.reserve(70, "key a", deadline_s=0)
    with pytest.raises(CapacityError, match=r"work needs 40 bytes .* within 0.05 s: .* key a holds 70 bytes") as caught:
        budget.reserve(40, "work", deadline_s=0.05)
    assert caught.value.details["held_bytes"] == {"key a": 70}
    assert caught.value.exit_status == 4


def test_waits_until_others_give_back() -> None:
    budget = MemoryBudget(100)
    first = budget.reserve(70, "key a", deadline_s=0)
    timer = threading.Timer(0.05, first.drop)
    timer.start()
    with budget.reserve(80, "work", deadline_s=10):
        assert budget.reserved_bytes == 80
    timer.join()


def test_a_part_given_back_wakes_who_waits() -> None:
    budget = MemoryBudget(100)
    first = budget.reserve(90, "load a", deadline_s=0)
    timer = threading.Timer(0.05, first.resize, (20,))
    timer.start()
    with budget.reserve(80, "work", deadline_s=10):
        assert budget.reserved_bytes == 100
    timer.join()


def test_nothing_is_given_back_twice() -> None:
    budget = MemoryBudget(100)
    first = budget.reserve(90, "work", deadline_s=0)
    first.drop()
    first.drop()
    assert budget.reserved_bytes == 0
    with pytest.raises(ValueError, match="holds nothing"):
        first.resize(5)


def test_many_threads_never_exceed_it() -> None:
    budget = MemoryBudget(100)
    highest: list[int] = []

    def work() -> None:
        for _ in range(20):
            with budget.reserve(30, "work", deadline_s=30):
                highest.append(budget.reserved_bytes)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(highest) == 120
    assert max(highest) <= 100
    assert budget.reserved_bytes == 0
