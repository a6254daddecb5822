"""Whether the memory of a killed daemon is back: a pure function over samples of /proc.

Neither "the process is gone" nor "the curve is flat" nor "Shmem is back" proves it: on an H200, 48 GiB of pinned memory
stayed flat for 4.8 s after SIGKILL, Shmem fell to 0 meanwhile, and then the memory came back at 10 GiB/s. Released is
therefore judged against a baseline that was taken before the daemon was stopped (``KillRecord``): no recorded process
has a live thread, and what is available has grown by the daemon's footprint, in two samples.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuzkops.memory_causes import Surroundings
from cuzkops.remote.procfs import PAGE_BYTES, Facts, Leftovers, Memory
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from cuzkops.records import KillRecord

SLACK_BYTES = 256 << 20
"""Noise of MemAvailable on a busy host; also the most by which two samples that agree may differ."""
BACK_FRACTION = 0.95
PAIR_S = 0.25
CALM_S = 5.0
STALL_S = 30.0
STALL_BYTES_PER_S = 100_000_000
RATE_WINDOW_S = 2.0
_CLOCK_STEP_S = 0.02  # /proc/uptime counts hundredths: two readings 0.25 s apart may differ by 0.24


@dataclass(frozen=True)
class LiveProcess:
    """A recorded process that still has threads outside of the states Z and X: their state letters."""

    pid: int
    states: str


@dataclass(frozen=True)
class Sample:
    """One look at the host.

    Args:
        boot_id: Of the kernel that answered.
        memory: Its memory now; ``memory.uptime_s`` is the clock of the series.
        live: The recorded processes that are not gone.
        zombies: PIDs of the recorded processes that are gone but were not reaped.
        leftovers: Memory without an owner; None where this sample did not look.
        others: Memory of the larger other processes by "pid:start_ticks"; None where this sample did not look.
        names: Command names of ``others``.
        members: Live processes of the daemon's session that are not recorded; None where this sample did not look.
        holders: Command names of the other processes that have a GPU open, by PID; None where it did not look.
    """

    boot_id: str
    memory: Memory
    live: tuple[LiveProcess, ...] = ()
    zombies: tuple[int, ...] = ()
    leftovers: Leftovers | None = None
    others: dict[str, int] | None = None
    names: dict[str, str] = field(default_factory=dict)
    members: tuple[LiveProcess, ...] | None = None
    holders: dict[int, str] | None = None


@dataclass(frozen=True)
class Reason:
    """Why the memory counts as released, or why not yet: a word for programs and a sentence for people."""

    code: str
    sentence: str


class MemoryVerdict(Facts):
    """The end of a wait.

    ``code`` is one of released, rebooted, nothing-killed and calm; or why it is not: still-running, unpinning,
    driver-releasing, settling, stalled, short, tmpfs-left, other-tenant, hugetlb-pool.
    """

    released: bool
    code: str
    sentence: str
    timed_out: bool = False
    seconds: float
    n_samples: int
    available_bytes: int
    goal_bytes: int | None
    still_bytes: int
    first_available_bytes: int
    """What was available when the wait began."""


class Judge:
    """Reads samples in the order of time and says when the wait is over.

    Args:
        record: Baseline of the last kill, or None where nothing was killed.
        need_bytes: What the next daemon needs; it decides instead of the baseline. None: only the baseline decides.
        timeout_s: Longest wait on the clock of the samples.
    """

    def __init__(self, record: KillRecord | None, need_bytes: int | None, timeout_s: float) -> None:
        self._record = record
        self._need_bytes = need_bytes
        self._timeout_s = timeout_s
        self._recent: deque[tuple[float, int, int | None]] = deque()  # uptime_s, available_bytes, pins_pages
        self._first: Memory | None = None
        self._anchor: Memory | None = None  # first of the samples in a row that were good and agree
        self._around = Surroundings()
        self._members: tuple[LiveProcess, ...] = ()
        self._n_samples = 0
        self._begin_s: float | None = None  # of this wait; the series may be older
        self._warning = ""
        self.reason = Reason("settling", "the first sample is awaited")
        """Why the last sample did not end the wait."""

    def goes_on(self, first: Memory, n_samples: int) -> None:
        """Go on with a series that an earlier wait for the same kill has begun; its deadline is not this one's.

        Args:
            first: What was seen when that series began.
            n_samples: How many samples it has.
        """
        self._first, self._n_samples = first, n_samples

    def feed(self, sample: Sample) -> MemoryVerdict | None:
        """Take one sample; returns the verdict, or None while the wait goes on for ``reason``."""
        memory = sample.memory
        self._remember(sample)
        if self._record is not None and sample.boot_id != self._record.boot_id:
            self._warning = "the host has rebooted since the kill; "
            self._record, self._first = None, memory  # and the clock of the series began anew
            if self._need_bytes is None:
                return self._end(memory, "rebooted", f"{self._warning}nothing of the old daemon can be left")
        if self._record is None and self._need_bytes is None:
            return self._end(memory, "nothing-killed", "nothing was killed here: there is no baseline to judge by")
        verdict = self._cold(memory) if self._record is None else self._warm(sample, self._record)
        if verdict is None and memory.uptime_s - (self._begin_s or 0.0) >= self._timeout_s:
            return self.give_up()
        return verdict

    def give_up(self) -> MemoryVerdict:
        """Return the verdict for a wait that ends now without being over."""
        memory = self._last
        return self._end(memory, self.reason.code, self.reason.sentence, released=False, timed_out=True)

    @property
    def goal_bytes(self) -> int | None:
        """How much must be available: the need, else the baseline plus what the daemon held, less slack."""
        return self._need_bytes if self._need_bytes is not None else self._baseline_bytes

    @property
    def rate_bytes_per_s(self) -> float:
        """How fast memory came back over the last two seconds."""
        now_s, available, _ = self._recent[-1]
        then_s, then, _ = next(entry for entry in self._recent if entry[0] >= now_s - RATE_WINDOW_S)
        return (available - then) / (now_s - then_s) if now_s > then_s else 0.0

    @property
    def _baseline_bytes(self) -> int | None:
        if self._record is None:
            return None
        return self._record.available_bytes + round(BACK_FRACTION * self._record.footprint_bytes) - SLACK_BYTES

    @property
    def _clock_start_s(self) -> float:
        return self._first.uptime_s if self._first else 0.0

    def _remember(self, sample: Sample) -> None:
        memory = sample.memory
        self._first = self._first or memory
        self._begin_s = memory.uptime_s if self._begin_s is None else self._begin_s
        self._last = memory
        self._n_samples += 1
        self._recent.append((memory.uptime_s, memory.available_bytes, memory.pins_pages))
        while self._recent[0][0] < memory.uptime_s - STALL_S - 1:
            self._recent.popleft()
        self._around = self._around.updated(sample.leftovers, sample.others, sample.names, sample.holders)
        self._members = self._members if sample.members is None else sample.members

    def _end(
        self, memory: Memory, code: str, sentence: str, *, released: bool = True, timed_out: bool = False
    ) -> MemoryVerdict:
        goal = self.goal_bytes
        return MemoryVerdict(
            released=released,
            code=code,
            sentence=sentence,
            timed_out=timed_out,
            seconds=round(memory.uptime_s - self._clock_start_s, 2),
            n_samples=self._n_samples,
            available_bytes=memory.available_bytes,
            goal_bytes=goal,
            still_bytes=max(0, goal - memory.available_bytes) if goal is not None else 0,
            first_available_bytes=self._first.available_bytes if self._first else memory.available_bytes,
        )

    def _cold(self, memory: Memory) -> MemoryVerdict | None:
        """Without a daemon that was killed only a window of calm, or far above the need, can decide."""
        need = self._need_bytes or 0
        if memory.available_bytes < need:
            self.reason = Reason("short", f"{self._warning}{self._short(memory, need)}; {self._around.largest()}")
            return None
        lowest = self._lowest(need)
        if lowest is not None:
            killed = self._warning or "nothing was killed here; "
            sentence = f"{killed}{format_bytes(lowest)} have been available for {CALM_S:g} s"
            return self._end(memory, "calm", f"{sentence}, which is enough for {format_bytes(need)}")
        self.reason = Reason("settling", f"{self._warning}enough is available{self._restless(need)}")
        return None

    def _warm(self, sample: Sample, record: KillRecord) -> MemoryVerdict | None:
        memory, goal = sample.memory, self.goal_bytes or 0
        if sample.live:
            self._anchor = None
            self.reason = self._alive(sample, record)
            return None
        if self._members:
            self._anchor = None
            who = ", ".join(f"{process.pid} ({process.states})" for process in self._members)
            self.reason = Reason("still-running", f"process {who} of its session lives on: run kill again")
            return None
        if memory.available_bytes >= goal:
            return self._good(sample, record)
        self._anchor = None
        missing = (self._baseline_bytes or 0) - memory.available_bytes
        if missing <= 0:
            return self._back_but_short(memory, goal)
        pins_left = self._pins_left(memory, record)
        if pins_left and not self._calm(STALL_S):
            self.reason = Reason("driver-releasing", f"{self._gone(record)}, {self._pins_text(pins_left)}")
            return None
        return self._explain(sample, record, missing)

    def _good(self, sample: Sample, record: KillRecord) -> MemoryVerdict | None:
        memory, anchor = sample.memory, self._anchor
        pins_left = self._pins_left(memory, record)
        if pins_left and not self._calm(CALM_S):
            self._anchor = None
            self.reason = Reason("driver-releasing", f"{self._gone(record)}, {self._pins_text(pins_left)}")
            return None
        if anchor is None or abs(memory.available_bytes - anchor.available_bytes) >= SLACK_BYTES:
            self._anchor = memory
        elif memory.uptime_s - anchor.uptime_s >= PAIR_S - _CLOCK_STEP_S:
            sentence = f"{self._gone(record, sample.zombies)} and {format_bytes(memory.available_bytes)} are available"
            others = f"; {self._pins_text(pins_left)}, for others" if pins_left else ""
            return self._end(memory, "released", sentence + others + self._around.gpu_text())
        self.reason = Reason("settling", "enough is available; a second sample must agree")
        return None

    def _alive(self, sample: Sample, record: KillRecord) -> Reason:
        pids = ", ".join(f"{process.pid} ({process.states})" for process in sample.live)
        states = "".join(process.states for process in sample.live)
        if record.signalled_uptime_s is None:
            return Reason("still-running", f"process {pids} was not told to stop yet: run kill")
        if not set(states) & set("DR"):
            return Reason("still-running", f"process {pids} was told to stop and still runs: run kill again")
        return Reason("unpinning", f"the kernel is still taking process {pids} apart; {self._progress(sample.memory)}")

    def _progress(self, memory: Memory) -> str:
        missing = max(0, (self.goal_bytes or 0) - memory.available_bytes)
        rate = self.rate_bytes_per_s
        if rate < STALL_BYTES_PER_S:
            return f"{format_bytes(missing)} are missing and nothing comes back at the moment"
        left = f"{format_bytes(missing)} are missing, {format_bytes(round(rate))}/s come back"
        return f"{left}, about {missing / rate:.0f} s left"

    def _explain(self, sample: Sample, record: KillRecord, missing: int) -> MemoryVerdict | None:
        causes = self._around.causes(record)
        gone = self._gone(record, sample.zombies)
        if causes and sum(cause.n_bytes for cause in causes) >= missing:
            main, *_ = ordered = sorted(causes, key=lambda cause: -cause.n_bytes)
            sentence = f"{gone}, but {format_bytes(missing)} did not come back: "
            sentence += "; ".join(cause.text for cause in ordered)
            if self._calm(CALM_S):
                return self._end(sample.memory, main.code, sentence, released=False)
            self.reason = Reason("settling", f"{sentence} (it must stay so for {CALM_S:g} s)")
        elif self._stalled():
            still = f"{format_bytes(missing)} have not moved for {STALL_S:g} s and nothing explains them"
            self.reason = Reason("stalled", f"{gone}, {still}; {self._around.largest()}{self._around.gpu_text()}")
        else:
            rest = f"{self._progress(sample.memory)}{self._around.gpu_text()}"
            self.reason = Reason("driver-releasing", f"{gone}, the driver still releases its memory; {rest}")
        return None

    def _back_but_short(self, memory: Memory, need: int) -> MemoryVerdict | None:
        sentence = f"all memory of the old daemon is back, but {self._short(memory, need)}; {self._around.largest()}"
        if self._calm(CALM_S):
            return self._end(memory, "short", sentence, released=False)
        self.reason = Reason("short", sentence)
        return None

    def _short(self, memory: Memory, need: int) -> str:
        available = format_bytes(memory.available_bytes)
        return f"{available} available are {format_bytes(need - memory.available_bytes)} short of the need"

    def _pins_left(self, memory: Memory, record: KillRecord) -> int:
        """Pages beyond the allowed twentieth that the daemon had pinned and the driver did not yet give back."""
        if not record.pins_pages or memory.pins_pages is None:
            return 0
        own = min(record.pins_pages, record.footprint_bytes // PAGE_BYTES)
        return max(0, memory.pins_pages - (record.pins_pages - round(BACK_FRACTION * own)))

    def _pins_text(self, pages: int) -> str:
        return f"the driver still pins {format_bytes(pages * PAGE_BYTES)}"

    def _gone(self, record: KillRecord, zombies: tuple[int, ...] = ()) -> str:
        who = f"process {record.processes[0].pid}" if record.processes else "the process"
        return f"{who} is gone" + (" (a zombie that its parent does not reap)" if zombies else "")

    def _window(self, seconds: float) -> list[tuple[float, int, int | None]]:
        """The samples of the last ``seconds``; empty while the series is shorter than that."""
        now_s = self._recent[-1][0]
        if now_s - self._recent[0][0] < seconds - _CLOCK_STEP_S:
            return []
        return [entry for entry in self._recent if entry[0] >= now_s - seconds - _CLOCK_STEP_S]

    def _calm(self, seconds: float) -> bool:
        """Whether neither what is available nor the pins moved by the slack for so long."""
        window = self._window(seconds)
        available = [entry[1] for entry in window]
        pins = [(entry[2] or 0) * PAGE_BYTES for entry in window]
        return bool(window) and all(max(row) - min(row) < SLACK_BYTES for row in (available, pins))

    def _lowest(self, need_bytes: int) -> int | None:
        """The least that was available in a window of ``CALM_S``, if it can be taken to stay above a need; else None.

        It can where the window was calm, and where the memory could fall once more by as much as it moved.
        """
        available = [entry[1] for entry in self._window(CALM_S)]
        if not available:
            return None
        lowest, span = min(available), max(available) - min(available)
        return lowest if lowest >= need_bytes and (self._calm(CALM_S) or lowest - span >= need_bytes) else None

    def _restless(self, need_bytes: int) -> str:
        """Why what was enough is not yet taken to stay enough."""
        available = [entry[1] for entry in self._window(CALM_S)]
        if not available or min(available) < need_bytes:
            return f"; it must stay so for {CALM_S:g} s"
        moved = format_bytes(max(available) - min(available))
        return f", but it moved by {moved} within {CALM_S:g} s: as much once more would be short of the need"

    def _stalled(self) -> bool:
        window = self._window(STALL_S)
        return bool(window) and abs(window[-1][1] - window[0][1]) < STALL_BYTES_PER_S * STALL_S
