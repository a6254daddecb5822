"""``cuzkops runs``: what was deployed and measured from here, and what two measurements allow to be said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import with_output
from cuzkops.errors import OpsError, UnreadableError, UsageError
from cuzkops.session import Session
from cuzkops.state import RUN_WORDS, open_state
from cuzkops.units import counted, format_bytes, format_instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.records import RunRecord
    from cuzkops.steps.compare import Compared, Comparison, Difference
    from cuzkops.timing.samples import Median
    from prover.protocol import BenchAnswer

_RUN_HELP = "A run by its id, by a beginning of it, or `last` or `previous`."
_BENCH_HELP = "A bench by its id, by a beginning of it, or `last` or `previous`."


def _complete_run(incomplete: str) -> list[str]:
    """The runs that a shell offers, the newest first; a completion that fails offers none."""
    try:
        names = [*RUN_WORDS, *(run.run_id for run in open_state().runs())]
    except (OpsError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


_REASON_CHARS = 80
_METHOD = (
    "medians with 95 % intervals by order statistics (Conover 1999, 3.2); B/A is the median of all pairwise ratios\n"
    "with its interval (Hodges and Lehmann 1963). One run each: how much runs differ among themselves is not in it."
)


@with_output
def list_runs(session: Session) -> None:
    """List the runs that were recorded here, the newest first: deploys, rollbacks and benches, also failed ones."""
    records = _records(session)
    session.screen.result([_summary(record) for record in records], _list_text(records))


@with_output
def show(
    session: Session,
    *,
    run: Annotated[str, typer.Argument(metavar="RUN", help=_RUN_HELP, autocompletion=_complete_run)],
) -> None:
    """Show a run: what it was made of, and its figures where it is a bench."""
    record = session.state.find_run(run).read()
    session.screen.result(record, shown_text(record))


@with_output
def compare(
    session: Session,
    *,
    a: Annotated[str, typer.Argument(metavar="A", help=f"The old one. {_BENCH_HELP}", autocompletion=_complete_run)],
    b: Annotated[str, typer.Argument(metavar="B", help="The new one, named likewise.", autocompletion=_complete_run)],
) -> None:
    """Compare two benches: what differs behind the figures first, then medians, intervals and the change.

    A percentage is given only where the samples allow it. Status 5 where the two did different work.
    """
    from cuzkops.steps.compare import compare as compare_runs  # noqa: PLC0415 - `--help` loads no records

    old, new = (_find_bench(session, name) for name in (a, b))
    found = compare_runs(old, new)
    session.screen.result({"schema": 1, **vars(found)}, compared_text(found))


def _find_bench(session: Session, name: str) -> RunRecord:
    """A run by its name; `last` and `previous` count benches alone."""
    if name not in RUN_WORDS:
        return session.state.find_run(name).read()
    benches = [record for record in _records(session) if record.kind == "bench"]
    if len(benches) <= RUN_WORDS[name]:
        message = f"there is no {name} bench: {len(benches)} were recorded here"
        raise UsageError("no-such-run", message, "`cuzkops bench` records one")
    return benches[RUN_WORDS[name]]


def _records(session: Session) -> list[RunRecord]:
    records = []
    for run in session.state.runs():
        try:
            records.append(run.read())
        except UnreadableError as error:
            session.screen.say(f"left out: {error.message}")
    return records


def _median_us(bench: BenchAnswer | None) -> float | None:
    """The median latency, made of the samples as everywhere else: records of older daemons have another ``p50_us``."""
    from cuzkops.steps.compare import durations_us  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.samples import median  # noqa: PLC0415 - the same

    found = median(durations_us(bench, "latency")) if bench else None
    return found.value if found else None


def _summary(record: RunRecord) -> dict[str, object]:
    bench = record.bench
    return {
        "run_id": record.run_id,
        "kind": record.kind,
        "failed": record.failed or None,
        "label": record.label,
        "target": record.target,
        "name": record.name,
        "build_id": record.build_id,
        "started_unix_ns": record.started_unix_ns,
        "circuit": bench.circuit if bench else None,
        "n": len(bench.samples) if bench else None,
        "latency_p50_us": _median_us(bench),
        "proofs_per_s": bench.proofs_per_s if bench else None,
    }


def _list_text(records: Sequence[RunRecord]) -> str:
    if not records:
        return "no runs were recorded here: `cuzkops deploy` and `cuzkops bench` record them"
    rows = [("run", "kind", "target", "build", "circuit", "n", "latency (median, ms)", "proofs/s", "label")]
    for record in records:
        bench = record.bench
        figures = (
            (bench.circuit, str(len(bench.samples)), _ms(_median_us(bench)), f"{bench.proofs_per_s:.3g}")
            if bench
            else (", ".join(record.circuits) or "-", "-", "-", "-")
        )
        kind = f"{record.kind}, failed" if record.failed else record.kind
        label = " ".join(record.failed.split())[:_REASON_CHARS] if record.failed else record.label
        rows.append((record.run_id, kind, record.target, record.build_id or "-", *figures, label))
    return _table(rows)


def shown_text(record: RunRecord) -> str:
    """A run for people."""
    when = format_instant(record.started_unix_ns // 10**9)
    lines = [
        f"run {record.run_id}: {record.kind} of {record.name} on {record.target}"
        + (f", {record.label}" if record.label else ""),
    ]
    if record.failed:
        release = f"; release {record.release_id}" if record.release_id else ""
        return "\n".join([*lines, f"  started {when}{release}", f"  failed: {record.failed}"])
    lines += [
        f"  started {when}; build {record.build_id}, configuration {record.config_sha256[:12]}",
        f"  circuits: {', '.join(f'{name} ({digest[:12]})' for name, digest in record.circuits.items()) or 'none'}",
        f"  host {record.host}, GPUs: {', '.join(record.gpus) or 'none'}",
    ]
    if machine := record.machine:
        lines.append(
            f"  {counted(machine.n_cpus, 'CPU')} ({machine.cpu or machine.architecture}), {machine.memory_text}, "
            f"kernel {machine.kernel}, load average {machine.load_1min:.2f} before"
        )
    if record.peak_bytes is not None:
        lines.append(f"  peak memory {format_bytes(record.peak_bytes)}")
    if record.bench:
        lines += ["", *_bench_lines(record.bench)]
    return "\n".join(lines)


def _bench_lines(bench: BenchAnswer) -> list[str]:
    from cuzkops.steps.compare import METRICS, durations_us  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.samples import median  # noqa: PLC0415 - the same

    rows = [("(ms)", "n", "median", "95 % interval", "p95", "min", "max")]
    for metric in METRICS:
        found = getattr(bench, metric)
        if found is not None:
            middle = median(durations_us(bench, metric))
            rows.append(
                (
                    metric,
                    str(found.n),
                    _ms(None if middle is None else middle.value),
                    _interval(middle),
                    _ms(found.p95_us),
                    _ms(found.min_us),
                    _ms(found.max_us),
                )
            )
    done = (
        f"{bench.n_done} of {bench.n_jobs} jobs done, {bench.concurrency} in flight, "
        f"{counted(bench.n_partitions, 'proof')} each"
    )
    return [
        f"  {done}, after {bench.n_warmup} to warm up; {counted(bench.n_verified, 'proof')} verified",
        f"  {bench.proofs_per_s:.4g} proofs/s over {_ms(bench.wall_us)} ms",
        *(f"  {line}" for line in _table(rows).splitlines()),
    ]


def compared_text(found: Comparison) -> str:
    """A comparison for people."""
    lines = [f"A {found.a}", f"B {found.b}", *_difference_lines(found.differences)]
    lines += [f"take care: {found.busy}", ""] if found.busy else [""]
    rows: list[tuple[str, ...]] = [
        ("(ms)", "n", "median A", "95 % interval", "n", "median B", "95 % interval", "B/A - 1")
    ]
    rows += [_compared_row(row) for row in found.rows]
    lines += _table(rows).splitlines()
    lines += ["proofs/s: {:.4g} and {:.4g}, one value a run".format(*found.proofs_per_s), "", _METHOD]
    return "\n".join(lines)


def _difference_lines(differences: Sequence[Difference]) -> list[str]:
    if not differences:
        return ["the two were measured on the same build, configuration, machine and load"]
    spoils = [difference.what for difference in differences if difference.spoils]
    lines = ["different:", *(f"  {d.what}: {d.a} and {d.b}" for d in differences)]
    if spoils:
        lines.append(
            f"take care: with another {', '.join(spoils)} the figures do not tell what a change of the prover did"
        )
    return lines


def _compared_row(row: Compared) -> tuple[str, ...]:
    sides = [cell for side in (row.a, row.b) for cell in _median_cells(side)]
    return (row.metric, *sides, _change(row))


def _change(row: Compared) -> str:
    """The change in per cent, where the samples allow one."""
    found = row.b_over_a
    if found is None:
        return row.why_not
    interval = f"{_percent(found.low)} to {_percent(found.high)}"
    return f"{_percent(found.value)} ({interval})" if found.is_shown else f"no difference shown ({interval})"


def _median_cells(side: Median | None) -> tuple[str, str, str]:
    return ("0", "-", "-") if side is None else (str(side.n), _ms(side.value), _interval(side))


def _interval(side: Median | None) -> str:
    return "-" if side is None or side.low is None else f"{_ms(side.low)} to {_ms(side.high)}"


def _percent(factor: float) -> str:
    return f"{(factor - 1) * 100:+.1f} %"


def _ms(duration_us: float | None) -> str:
    return "-" if duration_us is None else f"{duration_us / 1000:.3f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Columns under their heads; the first and the last are aligned to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    last = len(widths) - 1
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, last) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        name="runs",
        help="List, show and compare what was deployed and measured from here.",
        epilog="Example: cuzkops runs compare previous last",
        rich_markup_mode=None,
        no_args_is_help=True,
    )
    group.command("list", epilog="Example: cuzkops runs list --json")(list_runs)
    group.command("show", epilog="Example: cuzkops runs show last")(show)
    group.command("compare", epilog="Example: cuzkops runs compare previous last")(compare)
    app.add_typer(group)
