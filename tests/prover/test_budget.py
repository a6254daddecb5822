"""The byte budget: fits, never fits, waits, times out."""

from __future__ import annotations

import random
import threading
import time

import pytest

import prover.memory.budget
from prover.errors import CapacityError
from prover.memory.budget import MemoryBudget, Reservation


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


class Stress:
    """Threads that take and give back in every way; what some leave idle, others take away."""

    def __init__(self) -> None:
        self.budget = MemoryBudget(1000)
        self.budget.make_room = self.make_room
        self.idle: list[Reservation] = []
        self.lock = threading.Lock()
        self.failures: list[BaseException] = []

    def make_room(self) -> bool:
        with self.lock:
            victim = self.idle.pop() if self.idle else None
        if victim is not None:
            victim.drop()
        return victim is not None

    def leave_idle(self, reservation: Reservation) -> None:
        with self.lock:
            self.idle.append(reservation)
        self.budget.look_again()

    def work(self, seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(80):
                reservation = self.budget.reserve(draw.randint(1, 1000), f"w{seed}", deadline_s=120)
                assert self.budget.reserved_bytes <= 1000
                if draw.random() < 0.5:
                    reservation.resize(draw.randint(0, 1))
                give_back = self.leave_idle if draw.random() < 0.3 else Reservation.drop
                give_back(reservation)
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failures.append(error)


def test_no_wakeup_is_lost_under_stress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.memory.budget, "_LOOK_AGAIN_S", 1000.0)  # nothing but a notice ends a wait
    stress = Stress()
    threads = [threading.Thread(target=stress.work, args=(seed,), daemon=True) for seed in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)
        assert not thread.is_alive(), "it waits for a notice that never came"
    assert stress.failures == []
    while stress.make_room():
        pass
    assert stress.budget.reserved_bytes == 0


def test_a_notice_between_the_look_and_the_wait_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.memory.budget, "_LOOK_AGAIN_S", 100.0)  # nothing but the notice can end the wait
    budget = MemoryBudget(100)
    holder = budget.reserve(100, "a", deadline_s=0)
    calls: list[bool] = []

    def make_room() -> bool:
        if not calls:
            calls.append(True)
            holder.drop()  # by "another thread", after the look, before the wait
        return False

    budget.make_room = make_room
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(bool(budget.reserve(100, "b", deadline_s=90))), daemon=True)
    thread.start()
    thread.join(30)
    assert done == [1]


def test_what_can_be_missed_gives_way() -> None:
    budget = MemoryBudget(100)
    kept = [budget.reserve(40, f"key {i}", deadline_s=0) for i in range(2)]

    def make_room() -> bool:
        if kept:
            kept.pop(0).drop()
            return True
        return False

    budget.make_room = make_room
    with budget.reserve(50, "work", deadline_s=0):
        assert budget.held_bytes() == {"key 1": 40, "work": 50}


def test_a_budget_of_the_machine_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.memory.budget, "MEASURE_EVERY_S", 0.0)
    machine = [100]
    budget = MemoryBudget(100, lambda: machine[0])
    first = budget.reserve(80, "first", deadline_s=0)
    machine[0] = 50
    assert (budget.total_bytes, budget.free_bytes) == (50, -30)
    with pytest.raises(CapacityError, match="the budget is 50 bytes, first holds 80 bytes"):
        budget.reserve(60, "second", deadline_s=0)
    first.drop()
    threading.Timer(0.05, lambda: machine.__setitem__(0, 200)).start()
    with budget.reserve(60, "second", deadline_s=60):
        assert budget.total_bytes == 200


def test_a_machine_that_tells_nothing_keeps_the_last_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover.memory.budget, "MEASURE_EVERY_S", 0.0)

    def measure() -> int:
        raise OSError(24, "Too many open files")

    assert MemoryBudget(100, measure).total_bytes == 100
