"""``cuzkops logs``: pull, follow or parse the daemon's timing log."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import on_host
from cuzkops.errors import UsageError
from cuzkops.rendering import Meter
from cuzkops.session import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.rendering import Screen
    from cuzkops.steps.collect import Pulled
    from cuzkops.timing.parse import LogRecord
    from prover.protocol import DaemonRecord

_FOLLOW_LINES_BACK = 20
_MOST_LINES = 1 << 40  # more than any log has, and a number that every tail takes
_MOMENT_S = 1.0


@on_host
def logs(
    place: Place,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with each line as it is written.")] = False,
    parse: Annotated[bool, typer.Option("--parse", help="Show where the time went instead of the lines.")] = False,
    prose: Annotated[
        bool, typer.Option("--prose", help="Show what the daemon said besides: its standard output and error.")
    ] = False,
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
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only what was written since then: 10m ago by the host's clock, or 2026-11-29T22:00:00Z. With --parse "
            "what ended since then.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the timing log of the daemon that was launched last.

    The log is pulled into the tool's state folder, from where it left off. `--parse` prints a table for each run, and
    lists what did not end and the lines that could not be read; status 5 where there is no timing line at all. What
    the daemon says in words, such as why it ended, is shown by `--prose`.
    """
    from cuzkops.steps.collect import now_unix_ns, pull  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.follow import writer  # noqa: PLC0415 - the same
    from cuzkops.timing.since import lines_since, parse_instant  # noqa: PLC0415 - the same

    _refuse_together(lines, since, follow=follow, parse=parse, prose=prose)
    lines = lines if lines is None else min(lines, _MOST_LINES)
    with place.open(remember=False) as (host, layout):
        since_unix_ns = None if since is None else parse_instant(since, now_unix_ns(host))
        if follow and (daemon := writer(host, layout)):
            _follow(place, host, layout, daemon, _Follow(lines, since_unix_ns, parse))
            return
        if follow:
            place.screen.say("logs: no daemon runs, so nothing more will be written")
        pulled = pull(host, layout, place.session.state, _pull_shown(place.screen))
    for notice in pulled.notices:
        place.screen.say(f"logs: {notice}")
    place.screen.detail(f"logs: copies are in {pulled.folder}")
    if parse:
        _show_table(place, pulled, since_unix_ns)
        return
    files = pulled.prose if prose else pulled.timing_logs
    found = _lines(files)
    found = found if since_unix_ns is None else lines_since(found, since_unix_ns)
    _show(place, files, found if lines is None else deque(found, maxlen=lines), follow=follow)


def _show_table(place: Place, pulled: Pulled, since_unix_ns: int | None) -> None:
    from cuzkops.steps.collect import keep_peaks  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.read import read_table  # noqa: PLC0415 - the same

    table = read_table(pulled.timing_logs, since_unix_ns)
    keep_peaks(place.session.state, table)
    place.screen.result(table.as_json(), table.as_text())


def _show(place: Place, files: Sequence[Path], lines: Iterable[bytes], *, follow: bool) -> None:
    shown = (line.decode(errors="replace") for line in lines)
    if place.screen.json_mode and not follow:
        place.screen.result({"files": files, "lines": list(shown)}, "")
        return
    for text in shown:
        place.screen.item({"line": text}, text)


def _pull_shown(screen: Screen) -> Callable[[str, int, int], None]:
    """What shows how far a pull is, once it takes longer than a moment."""
    meter, begin_s = Meter(), time.monotonic()

    def show(name: str, done_bytes: int, total_bytes: int) -> None:
        text = meter.text(name, done_bytes, total_bytes)
        if time.monotonic() - begin_s > _MOMENT_S:
            screen.progress(f"logs: {text}")

    return show


def _refuse_together(lines: int | None, since: str | None, *, follow: bool, parse: bool, prose: bool) -> None:
    """Refuse options that make no sense together, and what is no time, before anything is asked of the host."""
    from cuzkops.timing.since import parse_instant  # noqa: PLC0415 - `--help` loads no records

    if prose and (follow or parse or since is not None):
        message = "--prose shows what has no timing lines and no times"
        raise UsageError("prose", message, "leave --follow, --parse and --since out")
    if parse and lines is not None and not follow:
        message = "--parse reads the whole log: a table of its last lines would miss where their work began"
        raise UsageError("lines-with-parse", message, "leave --lines out, or say --since")
    if follow and lines is not None and since is not None:
        raise UsageError("lines-with-since", "--follow begins with the last lines or with those since a time, not both")
    if since is not None:
        parse_instant(since, 0)


@dataclass(frozen=True)
class _Follow:
    """What of a log is followed: its last lines or those since an instant, as they are or parsed."""

    lines: int | None
    since_unix_ns: int | None
    parse: bool

    @property
    def lines_back(self) -> int | None:
        """How many lines come first; None for all, of which those since the instant are shown."""
        if self.lines is None and self.since_unix_ns is not None:
            return None
        return _FOLLOW_LINES_BACK if self.lines is None else self.lines


def _follow(place: Place, host: Host, layout: Layout, record: DaemonRecord, wanted: _Follow) -> None:
    from cuzkops.steps.follow import follow  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.timing.parse import Parser  # noqa: PLC0415 - the same
    from cuzkops.timing.since import lines_since  # noqa: PLC0415 - the same

    place.session.interrupted = "the daemon and its log go on"
    log = record.logs[0]
    parser = Parser(log.rpartition("/")[2])
    process = (record.pid, record.start_ticks)
    stream = follow(host, layout, log=log, process=process, lines_back=wanted.lines_back, on_notice=place.screen.say)
    if wanted.since_unix_ns is not None:
        stream = lines_since(stream, wanted.since_unix_ns)
    for line in stream:
        text = line.decode(errors="replace")
        if not wanted.parse:
            place.screen.item({"line": text}, text)
            continue
        for item in parser.feed(line + b"\n"):
            place.screen.item({"kind": type(item).__name__, **vars(item)}, _record_text(item, text))


def _record_text(item: LogRecord, text: str) -> str:
    reason = getattr(item, "reason", None)
    return text if reason is None else f"not of the grammar ({reason}): {text}"


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as file:
            yield from (line.rstrip(b"\n") for line in file)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops logs root@gpu1 --parse")(logs)
