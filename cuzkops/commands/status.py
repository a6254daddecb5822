"""``cuzkops status``: who runs on a host and what it says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.commands.options import on_host
from cuzkops.session import Place
from cuzkops.units import format_bytes, format_duration_s

if TYPE_CHECKING:
    import typer

    from cuzkops.remote.daemon import DaemonView
    from cuzkops.remote.lock import Holder
    from cuzkops.remote.probes import ProcessInfo
    from cuzkops.remote.procfs import Memory
    from cuzkops.steps.status import StatusReport
    from prover.protocol import StatusAnswer


@on_host
def status(place: Place) -> None:
    """Show the daemon, its jobs, circuits and memory, the host's memory, and who holds the lock.

    Changes nothing. A daemon that does not run, or does not answer, is an answer too: the status is 0.
    """
    from cuzkops.steps import status as step  # noqa: PLC0415 - `--help` loads no records

    with place.open(remember=False) as (host, layout):
        report = step.status(host, layout)
        place.screen.result(report, status_text(place.name, report, place.session.state.known_client_id()))


def status_text(name: str, report: StatusReport, client_id: str | None = None) -> str:
    """A report for people; with the name of this client it says whether a holder of the lock lives."""
    starting = report.starting
    lines = [
        f"daemon {name}: starting, release {starting.release_id}, pid {starting.pid}; it has not said yet who it is"
        if starting
        else _daemon_text(name, report.daemon, report.current)
    ]
    lines += [f"  of its session this lives on: {_process_text(process)}" for process in report.orphans]
    if report.orphans:
        lines.append("  `cuzkops kill` stops that, too")
    if report.problem:
        lines.append(f"  it does not answer: {report.problem}")
    if report.answer:
        lines += _answer_lines(report.answer)
    lines.append(f"host memory: {_memory_text(report.memory)}")
    lines.append(f"lock: {_lock_text(report.holder, client_id)}")
    return "\n".join(lines)


def _daemon_text(name: str, view: DaemonView | None, current: str | None) -> str:
    if view is None:  # a daemon that ended in order takes its record with it
        return f"daemon {name}: " + (
            f"not running; release {current} was launched last" if current else "never launched"
        )
    record = view.record
    if view.process is None:
        why = "its process has ended" if view.status == "gone" else "its record is of another boot or process"
        return f"daemon {name}: not running; release {record.release_id} was launched as pid {record.pid}, {why}"
    what = "adopted" if not record.is_ours else f"{record.state}, release {record.release_id}"
    return f"daemon {name}: {what}; {_process_text(view.process)}"


def _process_text(process: ProcessInfo) -> str:
    from cuzkops.remote.daemon import describe_process  # noqa: PLC0415 - `--help` loads no records

    return describe_process(process)


def _answer_lines(answer: StatusAnswer) -> list[str]:
    jobs = ", ".join(f"{count} {state}" for state, count in answer.jobs.items() if count) or "none yet"
    memory = answer.memory
    circuits = [
        f"  circuit {circuit.name}: domain {circuit.n_constraints_domain}, {circuit.n_public} public, "
        + (f"loaded ({format_bytes(circuit.loaded_bytes)})" if circuit.loaded_bytes else "not loaded")
        for circuit in answer.circuits
    ]
    budget = f"budget {format_bytes(memory.budget_bytes)} with {format_bytes(memory.reserved_bytes)} reserved"
    return [
        f"  version {answer.version}, backend {answer.backend}, up {format_duration_s(answer.uptime_s)}; jobs: {jobs}",
        f"  memory: {format_bytes(memory.rss_bytes)} now, {format_bytes(memory.peak_rss_bytes)} at most, {budget}",
        *circuits,
    ]


def _memory_text(memory: Memory) -> str:
    """What is available of what: of the control group's limit where that is what binds."""
    limit, total = memory.cgroup_limit_bytes, format_bytes(memory.total_bytes)
    available = f"{format_bytes(memory.available_bytes)} available"
    if limit is None or not memory.is_limited:
        return f"{available} of {total}"
    group = f"the {format_bytes(limit)} that the control group {memory.cgroup} may have"
    return f"{available} of {group}; the host has {total}"


def _lock_text(holder: Holder | None, client_id: str | None) -> str:
    from cuzkops.remote.lock import fate  # noqa: PLC0415 - `--help` loads no records

    if holder is None:
        return "free"
    known = fate(holder, client_id)
    return f"held by {holder}{f'; {known}' if known else ''}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops status root@gpu1 --json")(status)
