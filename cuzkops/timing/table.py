"""Spans to the table that people read and the JSON that programs read.

Circuits are never mixed, and the first partition of each (which finds everything cold) stands in a column of its own.
Only partitions that ended well count. ``share`` is a phase's total over the wall time in which at least one counted
partition was in work; phases of several workers overlap, so shares may pass 100 %.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cuzkops.timing.parse import BadLine
    from cuzkops.timing.spans import Run, Span, Timeline
    from prover.timeline import Value

SCHEMA = 1
MIN_N_FOR_P95 = 20  # below, the nearest rank of 95 % is the maximum under another name
_BAD_LINES_SHOWN = 20

# Phases of one partition in the order of work, with their depth: ntt_kernels and msm_invoke are parts of ntt_msm_h.
_PARTITION_PHASES = (
    ("partition", 0),
    ("synth", 1),
    ("gpu_queue", 1),
    ("gpu", 1),
    ("gpu_total", 2),
    ("ntt_msm_h", 3),
    ("ntt_kernels", 4),
    ("msm_invoke", 4),
    ("tail_msm", 3),
    ("b_g2_msm", 3),
    ("finish", 1),
    ("verify", 1),
)
_JOB_PHASES = (("job", 0), ("queue", 1))
_COLUMNS = ("n", "median", "p95", "min", "max", "total", "share", "warm-up")


@dataclass(frozen=True)
class PhaseRow:
    """One phase of one circuit in one run; durations in nanoseconds.

    Args:
        phase: Its name.
        depth: How deep it is nested in the phases above it.
        n: How many were counted.
        median_ns: Their median, or None without any.
        p95_ns: Their 95th percentile by nearest rank, or None below ``MIN_N_FOR_P95``.
        min_ns: The shortest.
        max_ns: The longest.
        total_ns: Their sum.
        share: Sum over the run's wall time, or None for jobs (their wait is no work) and without a wall time.
        warm_up_ns: The first partition's, or None.
    """

    phase: str
    depth: int
    n: int
    median_ns: int | None
    p95_ns: int | None
    min_ns: int | None
    max_ns: int | None
    total_ns: int
    share: float | None
    warm_up_ns: int | None


@dataclass(frozen=True)
class CircuitTable:
    """The phases of one circuit in one run."""

    circuit: str
    rows: tuple[PhaseRow, ...]


@dataclass(frozen=True)
class Unended:
    """What began and did not end well, and the line that says so."""

    phase: str
    outcome: str
    job: str | None
    part: int | None
    file: str
    line: int


@dataclass(frozen=True)
class RunTable:
    """One run: who it was, where its time went, and what is left open.

    Args:
        run: Its name.
        header: What its header says, or None where the log begins after it.
        wall_ns: Time in which at least one counted partition was in work.
        start_ns: From the daemon's start to its being ready, or None.
        load_ns: Circuit -> time to load it.
        jobs: Outcome -> how many.
        peak_rss_bytes: The largest that the log states, or None.
        circuits: By name.
        unended: Jobs, partitions and phases that did not end well.
        unknown: Lines with events or keys of a later version, by "FAMILY event".
    """

    run: str
    header: Mapping[str, Value] | None
    wall_ns: int
    start_ns: int | None
    load_ns: Mapping[str, int]
    jobs: Mapping[str, int]
    peak_rss_bytes: int | None
    circuits: tuple[CircuitTable, ...]
    unended: tuple[Unended, ...]
    unknown: Mapping[str, int]


@dataclass(frozen=True)
class TimingTable:
    """All runs of the logs that were read, and the lines that were not of the grammar."""

    runs: tuple[RunTable, ...]
    bad_lines: tuple[BadLine, ...]
    n_bad_lines: int

    def as_json(self) -> dict[str, object]:
        """The table as one JSON document, with its schema number."""
        return {"schema": SCHEMA, **asdict(self)}

    def as_text(self) -> str:
        """The table for people: times in milliseconds."""
        parts = [_run_text(run) for run in self.runs] or ["no timing lines"]
        if self.n_bad_lines:
            parts.append(_bad_lines_text(self.bad_lines, self.n_bad_lines))
        return "\n\n".join(parts) + "\n"


def tabulate(timeline: Timeline) -> TimingTable:
    """Summarise what was read."""
    return TimingTable(tuple(_run(run) for run in timeline.runs), timeline.bad_lines, timeline.n_bad_lines)


def _run(run: Run) -> RunTable:
    done = [span for span in run.spans if span.outcome == "done"]
    warm_up = run.warm_up
    completed = {(span.job, span.part) for span in done if span.phase in ("job", "partition")}
    counted = [s for s in done if s.phase == "partition" and (s.job, s.part) not in warm_up]
    wall_ns = _union_ns((s.start_ns, s.end_ns) for s in counted if s.start_ns is not None and s.end_ns is not None)
    circuits = sorted({span.circuit for span in done if span.job is not None})
    outcomes = [span.outcome for span in run.spans if span.phase == "job"]
    return RunTable(
        run=run.name,
        header=run.header.values if run.header else None,
        wall_ns=wall_ns,
        start_ns=next((span.duration_ns for span in done if span.phase == "start"), None),
        load_ns={span.circuit: span.duration_ns or 0 for span in done if span.phase == "load"},
        jobs={outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes))},
        peak_rss_bytes=run.peak_rss_bytes,
        circuits=tuple(
            _circuit(circuit, [s for s in done if s.circuit == circuit], completed, warm_up, wall_ns)
            for circuit in circuits
        ),
        unended=tuple(
            Unended(s.phase, s.outcome, s.job, s.part, s.file, s.line)
            for s in sorted(run.spans, key=lambda span: (span.file, span.line))
            if s.outcome != "done"
        ),
        unknown=run.unknown,
    )


def _circuit(
    circuit: str,
    spans: list[Span],
    completed: set[tuple[str | None, int | None]],
    warm_up: frozenset[tuple[str | None, int | None]],
    wall_ns: int,
) -> CircuitTable:
    cold_jobs = {job for job, _ in warm_up}
    rows = []
    for phase, depth in (*_JOB_PHASES, *_PARTITION_PHASES):
        of_job = (phase, depth) in _JOB_PHASES
        counted, cold = [], None
        for span in spans:
            if span.phase != phase or span.duration_ns is None:
                continue
            if span.job in cold_jobs if of_job else (span.job, span.part) in warm_up:
                cold = span.duration_ns
            elif (span.job, span.part) in completed:
                counted.append(span.duration_ns)
        if counted or cold is not None:
            rows.append(_row(phase, depth, sorted(counted), cold, 0 if of_job else wall_ns))
    return CircuitTable(circuit, tuple(rows))


def _row(phase: str, depth: int, durations_ns: list[int], warm_up_ns: int | None, wall_ns: int) -> PhaseRow:
    n = len(durations_ns)
    total_ns = sum(durations_ns)
    return PhaseRow(
        phase=phase,
        depth=depth,
        n=n,
        median_ns=round(statistics.median(durations_ns)) if n else None,
        p95_ns=durations_ns[-(-n * 95 // 100) - 1] if n >= MIN_N_FOR_P95 else None,
        min_ns=durations_ns[0] if n else None,
        max_ns=durations_ns[-1] if n else None,
        total_ns=total_ns,
        share=round(total_ns / wall_ns, 4) if wall_ns and n else None,
        warm_up_ns=warm_up_ns,
    )


def _union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union of intervals."""
    covered_ns, reached_ns = 0, None
    for start_ns, end_ns in sorted(intervals):
        begin_ns = start_ns if reached_ns is None else max(start_ns, reached_ns)
        covered_ns += max(0, end_ns - begin_ns)
        reached_ns = max(end_ns, reached_ns or 0)
    return covered_ns


def _run_text(run: RunTable) -> str:
    lines = [f"run {run.run}"]
    if run.header is None:
        lines.append("  its header is not in this log: build, host and options are unknown")
    else:
        facts = ("build", "release", "config", "host", "backend", "threads", "gpus", "driver")
        lines.append("  " + "  ".join(f"{key} {str(run.header[key])[:33]}" for key in facts if key in run.header))
    facts_ms = [
        ("started in", run.start_ns),
        *((f"{name or 'a circuit'} loaded in", ns) for name, ns in run.load_ns.items()),
    ]
    stated = [f"{what} {_ms(ns)} ms" for what, ns in facts_ms if ns is not None]
    if run.peak_rss_bytes is not None:
        stated.append(f"peak memory {format_bytes(run.peak_rss_bytes)}")
    if stated:
        lines.append("  " + ", ".join(stated))
    jobs = ", ".join(f"{n} {outcome}" for outcome, n in run.jobs.items()) or "none"
    lines.append(f"  jobs: {jobs}; wall time with counted partitions in work: {_ms(run.wall_ns or None)} ms")
    for circuit in run.circuits:
        lines += ["", *_circuit_lines(circuit)]
    if any(row.share is not None and row.share > 1 for circuit in run.circuits for row in circuit.rows):
        lines += ["", "  share is of the wall time above: phases of several partitions overlap, so it may exceed 100 %"]
    if run.unended:
        lines += ["", f"  did not end well: {len(run.unended)}"]
        lines += [f"    {_unended_text(item)}" for item in run.unended]
    if run.unknown:
        what = ", ".join(f"{event} ({n})" for event, n in run.unknown.items())
        lines += ["", f"  events or keys of a later version, not counted above: {what}"]
    return "\n".join(lines)


def _circuit_lines(circuit: CircuitTable) -> list[str]:
    head = [f"circuit {circuit.circuit} (ms)", *_COLUMNS]
    body = [
        [
            "  " * row.depth + row.phase,
            str(row.n),
            _ms(row.median_ns),
            _ms(row.p95_ns),
            _ms(row.min_ns),
            _ms(row.max_ns),
            _ms(row.total_ns) if row.n else "-",
            "-" if row.share is None else f"{row.share:.1%}",
            _ms(row.warm_up_ns),
        ]
        for row in circuit.rows
    ]
    widths = [max(len(line[column]) for line in [head, *body]) for column in range(len(head))]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in [head, *body]
    ]


def _unended_text(item: Unended) -> str:
    what = item.phase if item.phase in ("job", "partition") else f"phase {item.phase}"
    who = f"job {item.job or '?'}" + ("" if item.part is None else f" part {item.part}")
    return (
        f"{item.file}:{item.line}: {what} of {who}: {item.outcome}"
        if what != "job"
        else f"{item.file}:{item.line}: {who}: {item.outcome}"
    )


def _bad_lines_text(bad_lines: tuple[BadLine, ...], n_bad_lines: int) -> str:
    lines = [f"not of the grammar: {n_bad_lines} {'line' if n_bad_lines == 1 else 'lines'}"]
    for bad in bad_lines[:_BAD_LINES_SHOWN]:
        lines += [f"  {bad.file}:{bad.line}: {bad.reason}", f"    {bad.text}"]
    if n_bad_lines > _BAD_LINES_SHOWN:
        lines.append(f"  and {n_bad_lines - _BAD_LINES_SHOWN} more")
    return "\n".join(lines)


def _ms(duration_ns: int | None) -> str:
    return "-" if duration_ns is None else f"{duration_ns / 1e6:.3f}"
