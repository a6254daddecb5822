"""``cuzkops wait-memory``: wait until the memory of the killed daemon is really back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import DryRun, Timeout, on_host, size_bytes
from cuzkops.errors import TimeoutExpired
from cuzkops.session import Place
from cuzkops.units import counted, format_duration_s, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.memory_series import Series
    from cuzkops.memory_verdict import Judge, MemoryVerdict, Reason, Sample


@on_host
def wait_memory(
    place: Place,
    *,
    need: Annotated[
        str | None,
        typer.Option(
            "--need",
            metavar="SIZE",
            help="Memory that the next daemon needs, such as 2GiB; else all that the old one held must be back.",
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = "30m",
    check: Annotated[bool, typer.Option("--check", help="Do not wait: say whether the memory is back now.")] = False,
    notify: Annotated[
        str | None,
        typer.Option(
            "--notify",
            metavar="CMD",
            help="Run this program here at the end, without a shell: the verdict is its last argument, and JSON on its "
            "standard input.",
            show_default=False,
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Wait until the memory of the last killed daemon is really back, or say why it is not.

    The kernel and the driver give memory back long after a process has left the table. This judges the last
    `cuzkops kill`, and ends with status 4 and the reason where the memory does not come back. The samples of a kill
    are kept: interrupted and run again, it goes on with the same series.
    """
    from cuzkops.steps import wait_memory as step  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.notify import parse_command  # noqa: PLC0415 - `--help` starts no program

    request = step.WaitRequest(size_bytes(need), parse_duration_s(timeout), check)
    command = () if notify is None else parse_command(notify)
    with place.open(remember=False) as (host, layout):
        if dry_run:
            place.screen.plan(step.plan_wait(host, layout))
            return
        place.session.interrupted = (
            f"nothing was changed, and the memory goes on coming back; go on with: {place.again('wait-memory')}"
        )
        view = _View(place)
        try:
            verdict = step.wait_memory(
                host, layout, request, view.sampled, state=place.session.state, on_series=view.begins
            )
        except TimeoutExpired as error:
            _notify(place, command, error.message, error.details.get("verdict"))
            raise
        text = verdict_text(verdict)
        place.screen.result(verdict, text)
        _notify(place, command, text, verdict.model_dump())


class _View:
    """The wait as it is shown: the curve and the reason on a terminal, the reason alone in a file."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._series: Series | None = None
        self._judge: Judge | None = None
        self._said = False

    def begins(self, series: Series, judge: Judge) -> None:
        """Show what an earlier wait for the same kill has seen."""
        self._series, self._judge = series, judge
        if series.points:
            self._place.screen.say(f"wait-memory: going on with {len(series.points)} samples of the same kill")

    def sampled(self, _sample: Sample, reason: Reason) -> None:
        """Draw the curve up to now."""
        if self._series and self._series.problem and not self._said:
            self._said = True
            self._place.screen.say(f"wait-memory: the samples are not kept from here on: {self._series.problem}")
        self._place.screen.progress(f"wait-memory: {reason.sentence}", self._curve)

    def _curve(self, columns: int, unicode: bool) -> list[str]:
        from cuzkops.memory_curve import curve_lines  # noqa: PLC0415 - `--help` draws nothing

        if self._series is None or self._judge is None:
            return []
        return curve_lines(self._series.points, self._judge.goal_bytes, columns=columns, blocks=unicode)


def _notify(place: Place, command: Sequence[str], sentence: str, verdict: object) -> None:
    """Tell the program of ``--notify``; that it failed is said, and changes nothing."""
    from cuzkops.steps.notify import notify  # noqa: PLC0415 - `--help` starts no program

    if command and (problem := notify(command, sentence, json.dumps(verdict))):
        place.screen.say(f"wait-memory: nobody was notified: {problem}")


def verdict_text(verdict: MemoryVerdict) -> str:
    """How the wait ended, for people."""
    if not verdict.seconds:  # judged at a glance: there was nothing to wait for
        return verdict.sentence
    return f"{verdict.sentence} (after {format_duration_s(verdict.seconds)}, {counted(verdict.n_samples, 'sample')})"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wait-memory", epilog="Example: cuzkops wait-memory root@gpu1 --need 40GiB --timeout 20m")(wait_memory)
