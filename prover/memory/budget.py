"""One byte budget for everything that the daemon holds: loaded keys, and the work of the partitions at hand.

It is bookkeeping before the fact: who would exceed it is refused or waits, instead of meeting the kernel's killer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Self

from prover.errors import CapacityError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

MEASURE_EVERY_S = 1.0
_LOOK_AGAIN_S = 1.0  # a waiter looks by itself too: what is idle and how much memory there is change without a notice


class MemoryBudget:
    """Counts reservations against a limit; threads may share it.

    Args:
        total_bytes: What all reservations together may take.
        measure: Says anew what they may take, where the machine decides: its memory may grow, shrink, or go to others.
    """

    def __init__(self, total_bytes: int, measure: Callable[[], int] | None = None) -> None:
        self._total_bytes = total_bytes
        self._measure = measure
        self._measured_s = time.monotonic()
        self._changed = threading.Condition()
        self._held: dict[Reservation, int] = {}
        self._n_changes = 0
        self.make_room: Callable[[], bool] = lambda: False
        """Gives something back that can be missed; returns whether it did. Called without the lock of the budget."""

    @property
    def total_bytes(self) -> int:
        """What all reservations together may take, now."""
        if self._measure is not None and time.monotonic() - self._measured_s >= MEASURE_EVERY_S:
            self._measured_s = time.monotonic()
            with contextlib.suppress(OSError, ValueError):  # no free descriptor, or /proc is being changed: as before
                self._total_bytes = self._measure()
        return self._total_bytes

    @property
    def reserved_bytes(self) -> int:
        """Sum of all reservations."""
        with self._changed:
            return sum(self._held.values())

    @property
    def free_bytes(self) -> int:
        """What could be reserved now; below 0 where the machine took memory back that is reserved."""
        return self.total_bytes - self.reserved_bytes

    def held_bytes(self) -> dict[str, int]:
        """Who holds how much."""
        with self._changed:
            found: dict[str, int] = {}
            for reservation, n_bytes in self._held.items():
                found[reservation.holder] = found.get(reservation.holder, 0) + n_bytes
            return found

    def reserve(self, n_bytes: int, holder: str, *, deadline_s: float) -> Reservation:
        """Take bytes, waiting until others gave enough back.

        Args:
            n_bytes: How many.
            holder: Who takes them, for messages: ``"key mul60"``.
            deadline_s: How long to wait.

        Raises:
            CapacityError: More than the whole budget was asked, or too little came back in time; names the holders.
        """
        end_s = time.monotonic() + deadline_s
        while True:
            total_bytes = self.total_bytes
            if n_bytes > total_bytes and self._measure is None:
                raise self.refusal(n_bytes, holder, "never fits")
            with self._changed:
                if sum(self._held.values()) + n_bytes <= total_bytes:
                    reservation = Reservation(self, holder)
                    self._held[reservation] = n_bytes
                    return reservation
                n_changes = self._n_changes
            if self.make_room():
                continue
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise self.refusal(n_bytes, holder, f"did not fit within {deadline_s:g} s")
            self._wait_for_change(n_changes, min(left_s, _LOOK_AGAIN_S))

    def resize(self, reservation: Reservation, n_bytes: int) -> None:
        """Set what a reservation holds, in either direction; memory that is already taken is never refused."""
        with self._changed:
            if reservation not in self._held:
                raise ValueError(f"{reservation.holder} holds nothing any more")
            self._held[reservation] = n_bytes
            self._notify()

    def drop(self, reservation: Reservation) -> None:
        """Give everything back; a second time does nothing."""
        with self._changed:
            self._held.pop(reservation, None)
            self._notify()

    def look_again(self) -> None:
        """Wake those who wait: something that can be missed has become idle."""
        with self._changed:
            self._notify()

    def refusal(self, n_bytes: int, holder: str, what: str) -> CapacityError:
        """Say who holds what, to one who gets nothing."""
        held = self.held_bytes()
        names = ", ".join(f"{name} holds {n} bytes" for name, n in held.items()) or "nothing is held"
        return CapacityError(
            "budget",
            f"{holder} needs {n_bytes} bytes and {what}: the budget is {self._total_bytes} bytes, {names}",
            "raise memory.budget, or configure fewer circuits",
            {"asked_bytes": n_bytes, "budget_bytes": self._total_bytes, "held_bytes": held},
        )

    def _wait_for_change(self, seen: int, timeout_s: float) -> None:
        """Wait until something has changed since ``seen``; a notice that was given meanwhile is not missed."""
        with self._changed:
            self._changed.wait_for(lambda: self._n_changes != seen, timeout_s)

    def _notify(self) -> None:
        self._n_changes += 1
        self._changed.notify_all()


class Reservation:
    """Bytes of a budget, given back by ``drop`` or at the end of a ``with`` block.

    Args:
        budget: Where they were taken.
        holder: Who took them.
    """

    def __init__(self, budget: MemoryBudget, holder: str) -> None:
        self._budget = budget
        self.holder = holder

    def resize(self, n_bytes: int) -> None:
        """Correct an estimate to what is really held, or give a part back."""
        self._budget.resize(self, n_bytes)

    def drop(self) -> None:
        """Give everything back."""
        self._budget.drop(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
