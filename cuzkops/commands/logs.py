"""``cuzkops logs``: pull, follow or parse the daemon's timing log."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import on_host
from cuzkops.session import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.timing.parse import LogRecord
    from prover.protocol import DaemonRecord

_FOLLOW_LINES_BACK = 20


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
    from cuzkops.steps.collect import keep_peaks, pull  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.follow import writer  # noqa: PLC0415 - the same
    from cuzkops.timing.read import read_table  # noqa: PLC0415 - the same

    with place.open(remember=False) as (host, layout):
        if follow and (daemon := writer(host, layout)):
            _follow(place, host, layout, daemon, _FOLLOW_LINES_BACK if lines is None else lines, parse=parse)
            return
        if follow:
            place.screen.say("logs: no daemon runs, so nothing more will be written")
        pulled = pull(host, layout, place.session.state)
    for notice in pulled.notices:
        place.screen.say(f"logs: {notice}")
    place.screen.detail(f"logs: copies are in {pulled.folder}")
    if parse:
        table = read_table(pulled.timing_logs)
        keep_peaks(place.session.state, table)
        place.screen.result(table.as_json(), table.as_text())
        return
    shown = (line.decode(errors="replace") for line in _last_lines(pulled.timing_logs, lines))
    if place.screen.json_mode and not follow:
        place.screen.result({"files": pulled.timing_logs, "lines": list(shown)}, "")
        return
    for text in shown:
        place.screen.item({"line": text}, text)


def _follow(place: Place, host: Host, layout: Layout, record: DaemonRecord, lines_back: int, *, parse: bool) -> None:
    from cuzkops.steps.follow import follow  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.parse import Parser  # noqa: PLC0415 - the same

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


def _record_text(item: LogRecord, text: str) -> str:
    reason = getattr(item, "reason", None)
    return text if reason is None else f"not of the grammar ({reason}): {text}"


def _last_lines(files: Sequence[Path], n_lines: int | None) -> Iterable[bytes]:
    lines = _lines(files)
    return lines if n_lines is None else deque(lines, maxlen=n_lines)


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops logs root@gpu1 --parse")(logs)
