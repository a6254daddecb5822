"""A row of the tables that bench/host.py and bench/device.py print and write."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table; a ratio above 1 means that ours is better."""

    work: str
    log2_n: int
    unit: str
    ours: float
    peer: float | None
    better: str
    ratio: float | None
    goal: float | None
    floor: float | None
    reason: str

    @property
    def is_below_floor(self) -> bool:
        """Whether the row is worse than its floor; a row without a floor or whose peer is missing is not."""
        if self.floor is None:
            return False
        if self.ratio is not None:
            return self.ratio < self.floor
        if self.better == "higher":
            return self.ours < self.floor
        return self.unit != "ms" and self.ours > self.floor

    def line(self) -> str:
        """Write the row as a line of the table."""
        peer = "" if self.peer is None else f"  peer {self.peer:9.4f}  ratio {self.ratio:5.2f}"
        aims = (("goal", self.goal), ("floor", self.floor))
        aim = ", ".join(f"{word} {value:g}" for word, value in aims if value is not None)
        return f"{self.work:34} 2^{self.log2_n:<2} {self.ours:10.4f} {self.unit:3}{peer}  {aim}  {self.reason}"
