"""What else may hold the memory that a killed daemon is missing: pure, over the last long look at the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuzkops.remote.procfs import Leftovers
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuzkops.records import KillRecord

_SHOWN = 3
_LEAST_BYTES = 1 << 20


@dataclass(frozen=True)
class Cause:
    """Something that holds memory: a word for programs, how much, and a clause for people."""

    code: str
    n_bytes: int
    text: str


@dataclass(frozen=True)
class Surroundings:
    """Everything on a host that is not the killed daemon.

    Args:
        leftovers: Memory without an owner.
        others: Memory of the larger other processes by "pid:start_ticks".
        names: Command names of ``others``.
        holders: Command names of the other processes that have a GPU open, by PID.
    """

    leftovers: Leftovers = field(default_factory=Leftovers)
    others: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    holders: Mapping[int, str] = field(default_factory=dict)

    def updated(
        self,
        leftovers: Leftovers | None,
        others: Mapping[str, int] | None,
        names: Mapping[str, str],
        holders: Mapping[int, str] | None,
    ) -> Surroundings:
        """The same after one more sample, which may not have looked (None)."""
        return Surroundings(
            self.leftovers if leftovers is None else leftovers,
            self.others if others is None else others,
            self.names if others is None else names,
            self.holders if holders is None else holders,
        )

    def causes(self, record: KillRecord) -> list[Cause]:
        """Whatever may hold missing memory: what is new since the baseline, and what was its own."""
        held = self.leftovers.held_bytes
        own = {name: held.get(name, 0) for name in record.own_shm}
        files = {name: n_bytes - record.dev_shm.get(name, 0) for name, n_bytes in held.items() if name not in own}
        tenants = {key: n_bytes - record.others.get(key, 0) for key, n_bytes in self.others.items()}
        grown_files, grown_tenants = _positive(files), _positive(tenants)
        # A tenant's new file in /dev/shm counts for its process too: only the larger of the two sums may count.
        if sum(grown_files.values()) >= sum(grown_tenants.values()):
            own, grown_tenants = own | grown_files, {}
        pool = max(0, self.leftovers.hugetlb_free_bytes - record.hugetlb_free_bytes)
        causes = [
            Cause("tmpfs-left", sum(own.values()), f"left over in memory without a process: {_named(own)}"),
            Cause("other-tenant", sum(grown_tenants.values()), self._tenants_text(grown_tenants)),
            Cause("hugetlb-pool", pool, f"{format_bytes(pool)} went to the pool of huge pages (vm.nr_hugepages)"),
        ]
        return [cause for cause in causes if cause.n_bytes >= _LEAST_BYTES]

    def largest(self) -> str:
        """The largest other processes, as a clause."""
        rows = sorted(self.others.items(), key=lambda row: -row[1])[:_SHOWN]
        texts = (f"{self._who(key)} {format_bytes(size)}" for key, size in rows)
        return f"largest processes: {', '.join(texts)}" if rows else "no process that is visible here holds much"

    def gpu_text(self) -> str:
        """Who else has a GPU open, as a clause after others: an orphan that keeps the driver's pins, or a tenant."""
        rows = [f"pid {pid} ({name})" for pid, name in sorted(self.holders.items())]
        if not rows:
            return ""
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        return f"; {', '.join(rows[:_SHOWN])}{more} {'has' if len(rows) == 1 else 'have'} a GPU open"

    def _tenants_text(self, grown: Mapping[str, int]) -> str:
        rows = sorted(grown.items(), key=lambda row: -row[1])[:_SHOWN]
        texts = (f"{self._who(key)} by {format_bytes(size)}" for key, size in rows)
        return f"other processes grew: {', '.join(texts)}"

    def _who(self, key: str) -> str:
        return f"pid {key.split(':', maxsplit=1)[0]} ({self.names.get(key, '?')})"


def _positive(sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: n_bytes for name, n_bytes in sizes.items() if n_bytes > 0}


def _named(sizes: Mapping[str, int]) -> str:
    rows: Iterable[tuple[str, int]] = sorted(sizes.items(), key=lambda row: -row[1])[:5]
    return ", ".join(f"{name} {format_bytes(n_bytes)}" for name, n_bytes in rows if n_bytes > 0)
