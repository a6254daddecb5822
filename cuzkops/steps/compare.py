"""Compare: what two benches allow to be said of each other. Where they differ comes first, then the figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import UnreadableError
from cuzkops.timing.samples import Median, Ratio, median, ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.records import Machine, RunRecord
    from prover.protocol import BenchAnswer

METRICS = ("latency", "queue", "run")
"""What each job of a bench has a duration of; see ``BenchSample``."""

_IDLE_SHARE = 0.25
_FEWEST = "the samples allow no interval: too few of them"


@dataclass(frozen=True)
class Difference:
    """Something that is not the same in two runs.

    Args:
        what: Its name.
        a: As the first run has it.
        b: As the second has it.
        spoils: Whether figures of the two then measure different things.
    """

    what: str
    a: str
    b: str
    spoils: bool


@dataclass(frozen=True)
class Compared:
    """One metric of both runs, in microseconds.

    Args:
        metric: Its name.
        a: Of the first run; None without samples.
        b: Of the second.
        b_over_a: How many times longer the second took; None where the samples do not allow it.
        why_not: Why there is no ratio; empty where there is one.
    """

    metric: str
    a: Median | None
    b: Median | None
    b_over_a: Ratio | None
    why_not: str


@dataclass(frozen=True)
class Comparison:
    """Two benches beside each other.

    Args:
        a: Id of the first run.
        b: Id of the second.
        differences: What is not the same in both, what spoils first.
        rows: By metric.
        proofs_per_s: Of both; one value a run, so nothing is said of its spread.
        busy: Why the machine may have had something else to do; empty where it had not.
    """

    a: str
    b: str
    differences: tuple[Difference, ...]
    rows: tuple[Compared, ...]
    proofs_per_s: tuple[float, float]
    busy: str = ""


def durations_us(bench: BenchAnswer, metric: str) -> list[int]:
    """The samples of one metric, in microseconds."""
    return [getattr(sample, f"{metric}_us") for sample in bench.samples]


def compare(a: RunRecord, b: RunRecord) -> Comparison:
    """Compare two benches.

    Raises:
        UnreadableError: One of them measured nothing, or they proved different things.
    """
    first, second = _bench_of(a), _bench_of(b)
    _refuse(a.run_id, b.run_id, first, second)
    rows = tuple(_row(metric, durations_us(first, metric), durations_us(second, metric)) for metric in METRICS)
    differences = sorted(_differences(a, b, first, second), key=lambda difference: not difference.spoils)
    rates = (first.proofs_per_s, second.proofs_per_s)
    return Comparison(a.run_id, b.run_id, tuple(differences), rows, rates, _busy(a.machine, b.machine))


def _busy(a: Machine | None, b: Machine | None) -> str:
    """Say so where more than a quarter of a machine was at work before its bench."""
    busy = [m for m in (a, b) if m is not None and m.n_cpus and m.load_1min > _IDLE_SHARE * m.n_cpus]
    if not busy:
        return ""
    loads = " and ".join(f"{m.load_1min:.2f} on {m.n_cpus} CPUs" for m in busy)
    return f"the machine was at work before: load average {loads}"


def _bench_of(run: RunRecord) -> BenchAnswer:
    if run.bench is None:
        message = f"run {run.run_id} is a {run.kind}: nothing was measured in it"
        raise UnreadableError("not-comparable", message, "`cuzkops bench` records runs that can be compared")
    return run.bench


def _refuse(a_id: str, b_id: str, a: BenchAnswer, b: BenchAnswer) -> None:
    """Refuse where a figure of one run has no counterpart in the other."""
    facts = [
        ("circuit", f"{a.circuit} ({a.circuit_sha256[:12]})", f"{b.circuit} ({b.circuit_sha256[:12]})"),
        ("proofs a job", str(a.n_partitions), str(b.n_partitions)),
    ]
    for what, of_a, of_b in facts:
        same = a.circuit_sha256 == b.circuit_sha256 if what == "circuit" else of_a == of_b
        if not same:
            message = f"{a_id} and {b_id} did different work: {what} {of_a} and {of_b}"
            raise UnreadableError("not-comparable", message, "measure the same work twice")


def _row(metric: str, a: Sequence[int], b: Sequence[int]) -> Compared:
    found = ratio(a, b) if a and b else None
    why = "" if found else "a duration of 0 has no ratio" if a and b and min(*a, *b) <= 0 else _FEWEST
    return Compared(metric, median(a), median(b), found, why)


def _differences(a: RunRecord, b: RunRecord, first: BenchAnswer, second: BenchAnswer) -> list[Difference]:
    """Every fact behind the figures that differs; what spoils is what a change of the prover does not explain."""
    spoiling = _facts(a, first)
    of_b = _facts(b, second)
    intended = {
        "build": (a.build_id, b.build_id),
        "executable": (a.exe_sha256[:12], b.exe_sha256[:12]),
        "configuration": (a.config_sha256[:12], b.config_sha256[:12]),
        "jobs": (str(first.n_jobs), str(second.n_jobs)),
        "failed jobs": (str(first.n_failed), str(second.n_failed)),
    }
    found = [Difference(what, text, of_b[what], spoils=True) for what, text in spoiling.items() if text != of_b[what]]
    return found + [Difference(what, x, y, spoils=False) for what, (x, y) in intended.items() if x != y]


def _facts(run: RunRecord, bench: BenchAnswer) -> dict[str, str]:
    machine = run.machine
    facts = {
        "host": run.host,
        "GPUs": ", ".join(run.gpus) or "none",
        "driver": run.driver or "none",
        "jobs in flight": str(bench.concurrency),
        "warm-up jobs": str(bench.n_warmup),
    }
    if machine is None:
        return facts | dict.fromkeys(("CPU", "CPUs", "memory", "kernel", "huge pages"), "unknown")
    return facts | {
        "CPU": machine.cpu or "unknown",
        "CPUs": str(machine.n_cpus),
        "memory": machine.memory_text,
        "kernel": machine.kernel,
        "huge pages": machine.thp or "unknown",
    }
