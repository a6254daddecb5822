"""``cuzkops bench``: put a load on the deployed daemon, once, and record what it came to."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import Timeout, on_host
from cuzkops.commands.prove import local_witness
from cuzkops.errors import UsageError
from cuzkops.session import Place
from cuzkops.state import new_run_id
from cuzkops.units import format_duration_s, parse_duration_s

if TYPE_CHECKING:
    from cuzkops.rendering import Screen

_SHARE = re.compile(r"(\d{1,3}) ?\Z")


@on_host
def bench(
    place: Place,
    *,
    circuit: Annotated[str, typer.Argument(metavar="CIRCUIT", help="A circuit that the daemon serves.")],
    witness: Annotated[str, typer.Argument(metavar="WITNESS", help="A .wtns file of this machine.")],
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", min=1, max=1_000_000, help="Measured jobs.")] = 20,
    concurrency: Annotated[
        int, typer.Option("--concurrency", metavar="N", min=1, max=1024, help="Jobs in flight at most.")
    ] = 2,
    warmup: Annotated[
        int, typer.Option("--warmup", metavar="N", min=0, max=10_000, help="Jobs before them, in no figure.")
    ] = 1,
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, max=256, help="Proofs of one job.")] = 1,
    on_host: Annotated[bool, typer.Option("--on-host", help="WITNESS is an absolute path on the host.")] = False,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="TEXT", help="What you call this measurement.", show_default=False),
    ] = None,
    timeout: Timeout = "60m",
) -> None:
    """Measure the deployed daemon with a load of equal jobs, and record the run.

    The load is made on the host, so the connection is in no figure, and every proof is verified. The record holds
    build, configuration, circuit and machine beside each duration; `cuzkops runs` lists, shows and compares.
    """
    from cuzkops.commands.runs import shown_text  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps import bench as step  # noqa: PLC0415 - the same

    if label and not label.isprintable():
        raise UsageError("label", f"the label {label!r} holds more than plain text", "write it in one line")
    local = None if on_host else local_witness(witness)
    if on_host and not witness.startswith("/"):
        raise UsageError("witness", f"{witness!r} is not an absolute path on the host", "write it from / on")
    there, timeout_s = witness if on_host else None, parse_duration_s(timeout)
    request = step.BenchRequest(circuit, local, there, jobs, concurrency, warmup, count, timeout_s, label or "")
    place.session.interrupted = "nothing was recorded; jobs that had not ended are cancelled, and the daemon runs on"
    with place.open() as (host, layout):
        run_id = new_run_id()
        record = step.bench(host, layout, request, run_id, _Progress(place.screen).show)
        place.session.state.run(run_id).write(record)
    place.screen.result(record, shown_text(record))


class _Progress:
    """Shows what the load says of itself, with the time left of the stage that it is in."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._stage = ""
        self._begin: tuple[float, int] = (0.0, 0)  # time and share of the stage's first line

    def show(self, text: str) -> None:
        """Show one line of it."""
        stage, percent, _ = text.partition("%")
        found = _SHARE.search(stage) if percent else None
        share = int(found[1]) if found else None
        name, now_s = _SHARE.sub("", stage).strip(), time.monotonic()
        if share is None or name != self._stage:
            self._stage, self._begin = name, (now_s, share or 0)
        self._screen.progress(f"bench: {text}{self._left_text(share, now_s)}")

    def _left_text(self, share: int | None, now_s: float) -> str:
        begin_s, first = self._begin
        if share is None or not first < share < 100:
            return ""
        left_s = round((now_s - begin_s) * (100 - share) / (share - first))
        return f", about {format_duration_s(left_s)} left"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops bench mul60 witness.wtns root@gpu1 --jobs 50 --label 'wider windows'")(bench)
