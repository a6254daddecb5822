"""``cuzkops logs``: pull, follow or parse the daemon's timing log."""

from __future__ import annotations

import itertools
import re
from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import on_host
from cuzkops.errors import UnreadableError, UsageError
from cuzkops.session import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.state import State
    from cuzkops.steps.preflight import DaemonView
    from cuzkops.timing.parse import LogRecord
    from cuzkops.timing.table import TimingTable
    from prover.protocol import DaemonRecord

_FOLLOW_LINES_BACK = 20
_LAUNCH_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@on_host
def logs(
    place: Place,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with each line as it is written.")] = False,
    parse: Annotated[bool, typer.Option("--parse", help="Show where the time went instead of the lines.")] = False,
    lines: Annotated[
        int | None,
        typer.Option(
            "--lines",
            metavar="N",
            min=0,
            help="Only the last N lines. [default: all; with --follow 20]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the timing log of the daemon that was launched last.

    The log is pulled into the tool's state folder, from where it left off. `--parse` prints a table for each run, and
    lists what did not end and the lines that could not be read; status 5 where there is no timing line at all.
    """
    from cuzkops.steps.preflight import find_daemon  # noqa: PLC0415 - `--help` loads no records

    with place.open() as (host, layout):
        daemon = find_daemon(host, layout)
        if follow and daemon is not None and daemon.is_live:
            _follow(place, host, layout, daemon.record, _FOLLOW_LINES_BACK if lines is None else lines, parse=parse)
            return
        if follow:
            place.screen.say("logs: no daemon runs, so nothing more will be written")
        files = pull(place, host, layout, daemon)
    if parse:
        table = parse_logs(files)
        _keep_peaks(place.session.state, table)
        place.screen.result(table.as_json(), table.as_text())
        return
    for line in _last_lines(files, lines):
        text = line.decode(errors="replace")
        place.screen.item({"line": text}, text)


def pull(place: Place, host: Host, layout: Layout, daemon: DaemonView | None) -> list[Path]:
    """Bring the copies of the timing logs of the newest launch up to date; returns them, the oldest first.

    Raises:
        OpsError: There are no logs, or they cannot be read.
    """
    from cuzkops.steps.collect import collect  # noqa: PLC0415 - `--help` loads no records

    if daemon is not None and daemon.record.release_id == "adopted":
        folder = place.session.state.run(_checked(place, daemon.record.launch_id)).logs
        return _pull_adopted(host, folder, daemon.record.logs)
    launch_id = daemon.record.launch_id if daemon is not None and daemon.is_live else newest_launch(host, layout)
    folder = place.session.state.run(_checked(place, launch_id)).logs
    result = collect(host, layout, folder, launch_id=launch_id)
    for notice in result.notices:
        place.screen.say(f"logs: {notice}")
    place.screen.detail(f"logs: copies are in {folder}")
    timing = [file.path for file in result.files if re.fullmatch(r".*\.log(\.\d+)?", file.name)]
    return sorted(timing, key=_rotation, reverse=True)


def newest_launch(host: Host, layout: Layout) -> str:
    """The launch whose log was written last.

    Raises:
        UsageError: Nothing was ever launched.
    """
    from cuzkops.steps.collect import list_script  # noqa: PLC0415 - `--help` loads no records

    first, *_ = host.run(list_script(layout, None)).check().out.splitlines() or [""]
    if not first.startswith("launch "):
        raise UsageError("no-logs", f"no daemon {layout.name} was ever launched on {host.target}", "deploy one first")
    return first.removeprefix("launch ")


def parse_logs(files: Iterable[Path]) -> TimingTable:
    """Read timing logs of one daemon, the oldest first.

    Raises:
        UnreadableError: There is no timing line in them, or a header of a later schema.
    """
    from cuzkops.timing.parse import parse_file  # noqa: PLC0415 - `--help` reads no log
    from cuzkops.timing.spans import build_timeline  # noqa: PLC0415 - the same
    from cuzkops.timing.table import tabulate  # noqa: PLC0415 - the same

    files = list(files)
    records = itertools.chain.from_iterable(parse_file(path, path.name) for path in files)
    table = tabulate(build_timeline(records))
    if not table.runs:
        first = f": {table.bad_lines[0].reason}" if table.bad_lines else ""
        raise UnreadableError(
            "no-timing-lines",
            f"no line of {', '.join(path.name for path in files) or 'the logs'} is a timing line "
            f"({table.n_bad_lines} other lines{first})",
            "is this the log of another daemon? docs/TIMELINE_FORMAT.md has the grammar",
            {"bad_lines": [f"{bad.file}:{bad.line}: {bad.reason}" for bad in table.bad_lines[:20]]},
        )
    return table


def _keep_peaks(state: State, table: TimingTable) -> None:
    """Complete the records of the runs by what their logs say of memory: the next deploy counts on that much."""
    for run in table.runs:
        folder = state.run(run.run)
        if run.peak_rss_bytes is None or not (folder.path / "run.json").is_file():
            continue
        record = folder.read()
        if record.peak_bytes is None or run.peak_rss_bytes > record.peak_bytes:
            folder.write(record.model_copy(update={"peak_bytes": run.peak_rss_bytes}))


def _follow(place: Place, host: Host, layout: Layout, record: DaemonRecord, lines_back: int, *, parse: bool) -> None:
    from cuzkops.steps.collect import follow  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.parse import Parser  # noqa: PLC0415 - the same

    if not record.logs:
        raise UsageError("no-logs", f"daemon {place.name} on {place.target} writes no log to a file")
    place.session.interrupted = "the daemon and its log go on"
    log = record.logs[0]
    parser = Parser(log.rpartition("/")[2])
    process = (record.pid, record.start_ticks)
    stream = follow(host, layout, log=log, process=process, lines_back=lines_back, on_notice=place.screen.say)
    for line in stream:
        text = line.decode(errors="replace")
        if not parse:
            place.screen.item({"line": text}, text)
            continue
        for item in parser.feed(line + b"\n"):
            place.screen.item({"kind": type(item).__name__, **vars(item)}, _record_text(item, text))


def _checked(place: Place, launch_id: str) -> str:
    """A launch id that may name a folder here: it comes from the host."""
    if not _LAUNCH_ID.match(launch_id):
        raise UnreadableError("launch-id", f"{place.target} names a launch {launch_id!r}, which is no name")
    return launch_id


def _record_text(item: LogRecord, text: str) -> str:
    reason = getattr(item, "reason", None)
    return text if reason is None else f"not of the grammar ({reason}): {text}"


def _pull_adopted(host: Host, folder: Path, logs: list[str]) -> list[Path]:
    """Copy the files that an adopted daemon writes to: nothing is known of them, so they come whole."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    copies = []
    for number, log in enumerate(logs):
        copy = folder / f"{number}-{log.rpartition('/')[2]}"
        copy.unlink(missing_ok=True)
        host.get(log, copy)
        copies.append(copy)
    return copies


def _rotation(path: Path) -> int:
    """How often a file was rotated: ``x.log.2`` is older than ``x.log.1``, and ``x.log`` is the newest."""
    number = path.name.rpartition(".")[2]
    return int(number) if number.isdigit() else 0


def _last_lines(files: list[Path], n_lines: int | None) -> Iterable[bytes]:
    lines = _lines(files)
    return lines if n_lines is None else deque(lines, maxlen=n_lines)


def _lines(files: list[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops logs root@gpu1 --parse")(logs)
