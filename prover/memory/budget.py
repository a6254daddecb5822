"""One byte budget for everything that the daemon holds: loaded keys, and the work of the partition at hand.

It is bookkeeping before the fact: who would exceed it is refused or waits, instead of meeting the kernel's killer.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from prover.errors import CapacityError

if TYPE_CHECKING:
    from types import TracebackType


class MemoryBudget:
    """Counts reservations against a limit; threads may share it.

    Args:
        total_bytes: What all reservations together may take.
    """

    def __init__(self, total_bytes: int) -> None:
        self.total_bytes = total_bytes
        self._changed = threading.Condition()
        self._held: dict[Reservation, int] = {}

    @property
    def reserved_bytes(self) -> int:
        """Sum of all reservations."""
        with self._changed:
            return sum(self._held.values())

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
        with self._changed:
            if n_bytes > self.total_bytes:
                raise self._refusal(n_bytes, holder, "never fits")
            while sum(self._held.values()) + n_bytes > self.total_bytes:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise self._refusal(n_bytes, holder, f"did not fit within {deadline_s:g} s")
                self._changed.wait(left_s)
            reservation = Reservation(self, holder)
            self._held[reservation] = n_bytes
            return reservation

    def resize(self, reservation: Reservation, n_bytes: int) -> None:
        """Set what a reservation holds, in either direction; memory that is already taken is never refused."""
        with self._changed:
            if reservation not in self._held:
                raise ValueError(f"{reservation.holder} holds nothing any more")
            self._held[reservation] = n_bytes
            self._changed.notify_all()

    def drop(self, reservation: Reservation) -> None:
        """Give everything back; a second time does nothing."""
        with self._changed:
            self._held.pop(reservation, None)
            self._changed.notify_all()

    def _refusal(self, n_bytes: int, holder: str, what: str) -> CapacityError:
        held = {reservation.holder: n for reservation, n in self._held.items()}
        names = ", ".join(f"{name} holds {n} bytes" for name, n in held.items()) or "nothing is held"
        return CapacityError(
            "budget",
            f"{holder} needs {n_bytes} bytes and {what}: the budget is {self.total_bytes} bytes, {names}",
            "raise memory.budget, or configure fewer circuits",
            {"asked_bytes": n_bytes, "budget_bytes": self.total_bytes, "held_bytes": held},
        )


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
