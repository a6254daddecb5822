"""Records to spans: what took how long, run by run, and what never ended.

A run is what one start of a daemon wrote. Its lines carry its name; a header with the same name and other facts
(build, configuration, host) starts another run, and the header of a rotated file continues the one that it names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from cuzkops.timing.parse import BadLine, LogEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Outcome = Literal["done", "failed", "cancelled", "unfinished"]

MAX_BAD_LINES_KEPT = 1000
UNKNOWN_CIRCUIT = "unknown"  # its job was accepted before the log begins

# (family, event) -> the durations that the line states: key -> phase. The names are the log's own.
_STATED = {
    ("DAEMON", "ready"): {"start_ns": "start"},
    ("CIRCUIT", "loaded"): {"load_ns": "load"},
    ("JOB", "started"): {"queue_ns": "queue"},
    ("CUZK_TIMING", "phases"): {
        "gpu_total_ns": "gpu_total",
        "ntt_msm_h_ns": "ntt_msm_h",
        "tail_msm_ns": "tail_msm",
        "b_g2_msm_ns": "b_g2_msm",
    },
    ("CUZK_NTT_H", "phases"): {"ntt_kernels_ns": "ntt_kernels", "msm_invoke_ns": "msm_invoke"},
    ("FIN_TIMING", "partition"): {"finish_ns": "finish", "verify_ns": "verify"},
}
# event of TIMELINE -> the phase that it opens
_OPENS = {"SYNTH_START": "synth", "GPU_QUEUE": "gpu_queue", "GPU_START": "gpu"}
# event of TIMELINE -> the phase that it closes, and the key that states the duration (else the clock does)
_CLOSES = {"SYNTH_END": ("synth", "synth_ns"), "GPU_PICKUP": ("gpu_queue", ""), "GPU_END": ("gpu", "gpu_ns")}
_JOB_ENDS: dict[str, Outcome] = {"done": "done", "failed": "failed", "cancelled": "cancelled"}


@dataclass(frozen=True)
class Span:
    """Something that took time.

    Args:
        phase: ``"job"``, ``"partition"``, or a phase by the log's own name, such as ``"synth"``.
        circuit: The job's circuit; empty for what belongs to the daemon.
        job: The job's name, or None.
        part: The partition's number, or None for what belongs to the whole job.
        start_ns: On the daemon's clock; None where the log does not say.
        end_ns: The same for the end.
        duration_ns: As the daemon measured it, else end minus start; None where unknown.
        outcome: How it ended.
        file: Where the line stands that closes it, or opens it where it never ended.
        line: That line's number.
    """

    phase: str
    circuit: str
    job: str | None
    part: int | None
    start_ns: int | None
    end_ns: int | None
    duration_ns: int | None
    outcome: Outcome
    file: str
    line: int


@dataclass(frozen=True)
class Run:
    """One start of a daemon as its log tells it.

    Args:
        name: The run's name.
        header: Its header, or None where the log begins after it.
        spans: In the order in which they ended; what never ended comes last.
        peak_rss_bytes: The largest that the log states, or None.
        n_events: Lines of this run.
        unknown: Lines whose event or keys this version does not know, by "FAMILY event".
        warm_up: (job, part) of the first partition of each circuit, which finds everything cold.
    """

    name: str
    header: LogEvent | None
    spans: tuple[Span, ...]
    peak_rss_bytes: int | None
    n_events: int
    unknown: Mapping[str, int]
    warm_up: frozenset[tuple[str | None, int | None]] = frozenset()


@dataclass(frozen=True)
class Timeline:
    """Everything that was read.

    Args:
        runs: In the order of their first lines.
        bad_lines: The first ``MAX_BAD_LINES_KEPT`` lines that were not of the grammar.
        n_bad_lines: How many there were.
    """

    runs: tuple[Run, ...]
    bad_lines: tuple[BadLine, ...]
    n_bad_lines: int


def build_timeline(records: Iterable[LogEvent | BadLine]) -> Timeline:
    """Join the records of one or more logs of one daemon, in order, into runs and their spans."""
    runs: list[_RunBuilder] = []
    current: dict[str, _RunBuilder] = {}
    bad: list[BadLine] = []
    n_bad = 0
    for record in records:
        if isinstance(record, BadLine):
            n_bad += 1
            if len(bad) < MAX_BAD_LINES_KEPT:
                bad.append(record)
            continue
        run = current.get(record.run)
        if run is None or (record.family == "HEADER" and not run.continues_with(record)):
            run = current[record.run] = _RunBuilder(record.run)
            runs.append(run)
        run.add(record)
    return Timeline(tuple(run.build() for run in runs), tuple(bad), n_bad)


@dataclass
class _Part:
    """A partition in work: its first line and the phases that are open."""

    first: LogEvent
    open: dict[str, LogEvent] = field(default_factory=dict)


@dataclass
class _RunBuilder:
    name: str
    header: LogEvent | None = None
    n_events: int = 0
    spans: list[Span] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    peak_rss_bytes: int | None = None
    circuits: dict[str | None, str] = field(default_factory=dict)
    jobs: dict[str | None, LogEvent] = field(default_factory=dict)
    parts: dict[tuple[str | None, int | None], _Part] = field(default_factory=dict)

    def continues_with(self, header: LogEvent) -> bool:
        """Whether a header tells of this run: a rotated file repeats all facts but the instants."""
        return self.header is None or _facts(self.header) == _facts(header)

    def add(self, event: LogEvent) -> None:
        self.n_events += 1
        if not event.known:
            self.unknown[f"{event.family} {event.event}"] += 1
        peak = event.values.get("peak_rss_bytes")
        if isinstance(peak, int):
            self.peak_rss_bytes = max(peak, self.peak_rss_bytes or 0)
        if event.family == "HEADER":
            self.header = self.header or event
        elif event.family == "JOB":
            self._job(event)
        elif event.family == "TIMELINE":
            self._timeline(event)
        for key, phase in _STATED.get((event.family, event.event), {}).items():
            if key in event.values:
                self._close(event, phase, None, int(event.values[key]))
        if (event.family, event.event) == ("FIN_TIMING", "partition"):
            self._end_partition(event)

    def build(self) -> Run:
        for part in self.parts.values():
            self._abandon(part, "unfinished")
        spans = [*self.spans, *(self._span(event, "job", event, "unfinished", None) for event in self.jobs.values())]
        return Run(
            self.name,
            self.header,
            tuple(spans),
            self.peak_rss_bytes,
            self.n_events,
            dict(self.unknown),
            _first_partitions(spans),
        )

    def _job(self, event: LogEvent) -> None:
        if event.event in ("accepted", "recovered"):
            self.circuits[event.job] = str(event.values["circuit"])
            self.jobs[event.job] = event
        outcome = _JOB_ENDS.get(event.event)
        if outcome is None:
            return
        opened = self.jobs.pop(event.job, None)
        total_ns = event.values.get("total_ns")
        self.spans.append(self._span(event, "job", opened, outcome, int(total_ns) if total_ns is not None else None))
        for key in [key for key in self.parts if key[0] == event.job]:
            self._abandon(self.parts.pop(key), "unfinished" if outcome == "done" else outcome)

    def _timeline(self, event: LogEvent) -> None:
        key = (event.job, event.part)
        if event.event == "SYNTH_START" and key in self.parts:  # begun anew: the first try never ended
            self._abandon(self.parts.pop(key), "unfinished")
        if event.event in _OPENS:
            self.parts.setdefault(key, _Part(event)).open[_OPENS[event.event]] = event
        elif event.event in _CLOSES:
            phase, stated = _CLOSES[event.event]
            duration_ns = event.values.get(stated)
            part = self.parts.get(key)  # none where the log begins in the middle of the partition
            opened = part.open.pop(phase, None) if part else None
            self._close(event, phase, opened, int(duration_ns) if duration_ns is not None else None)

    def _close(self, event: LogEvent, phase: str, opened: LogEvent | None, duration_ns: int | None) -> None:
        self.spans.append(self._span(event, phase, opened, "done", duration_ns))

    def _end_partition(self, event: LogEvent) -> None:
        part = self.parts.pop((event.job, event.part), None)
        # Without its first line the partition has no length: the log begins in its middle.
        opened = part.first if part and part.first.event == "SYNTH_START" else None
        if part:
            for phase, start in part.open.items():
                self.spans.append(self._unended(start, phase, "unfinished"))
        self.spans.append(self._span(event, "partition", opened, "done", None))

    def _abandon(self, part: _Part, outcome: Outcome) -> None:
        self.spans += [self._unended(event, phase, outcome) for phase, event in part.open.items()]
        self.spans.append(self._unended(part.first, "partition", outcome))

    def _unended(self, opened: LogEvent, phase: str, outcome: Outcome) -> Span:
        return replace(self._span(opened, phase, opened, outcome, None), end_ns=None, duration_ns=None)

    def _span(
        self, event: LogEvent, phase: str, opened: LogEvent | None, outcome: Outcome, duration_ns: int | None
    ) -> Span:
        if duration_ns is None and opened and outcome != "unfinished":
            duration_ns = event.t_ns - opened.t_ns
        circuit = event.values.get("circuit") if event.job is None else self.circuits.get(event.job, UNKNOWN_CIRCUIT)
        return Span(
            phase=phase,
            circuit=str(circuit or ""),
            job=event.job,
            part=event.part,
            start_ns=opened.t_ns if opened else None,
            end_ns=None if outcome == "unfinished" else event.t_ns,
            duration_ns=duration_ns,
            outcome=outcome,
            file=event.file,
            line=event.line,
        )


def _first_partitions(spans: Iterable[Span]) -> frozenset[tuple[str | None, int | None]]:
    """The first partition of each circuit that ended well, by its beginning."""
    first: dict[str, Span] = {}
    for span in spans:
        if span.phase != "partition" or span.outcome != "done" or span.start_ns is None:
            continue
        known = first.get(span.circuit)
        if known is None or span.start_ns < (known.start_ns or 0):
            first[span.circuit] = span
    return frozenset((span.job, span.part) for span in first.values())


def _facts(header: LogEvent) -> dict[str, object]:
    return {key: value for key, value in header.values.items() if key != "wall_unix_ns"}
