"""``cuzkops wait-memory``: wait until the memory of the killed daemon is really back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import DryRun, Timeout, duration_s, on_host, size_bytes
from cuzkops.session import Place
from cuzkops.units import format_duration_s

if TYPE_CHECKING:
    from cuzkops.memory_verdict import MemoryVerdict


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
    dry_run: DryRun = False,
) -> None:
    """Wait until the memory of the last killed daemon is really back, or say why it is not.

    The kernel and the driver give memory back long after a process has left the table. This judges the last
    `cuzkops kill`, and ends with status 4 and the reason where the memory does not come back.
    """
    from cuzkops.steps import wait_memory as step  # noqa: PLC0415 - `--help` loads no records

    request = step.WaitRequest(size_bytes(need), duration_s(timeout), check)
    with place.open(remember=False) as (host, layout):
        if dry_run:
            place.screen.plan(step.plan_wait(host, layout))
            return
        place.session.interrupted = (
            f"nothing was changed, and the memory goes on coming back; go on with: {place.again('wait-memory')}"
        )
        verdict = step.wait_memory(
            host, layout, request, lambda _, reason: place.screen.progress(f"wait-memory: {reason.sentence}")
        )
        place.screen.result(verdict, verdict_text(verdict))


def verdict_text(verdict: MemoryVerdict) -> str:
    """How the wait ended, for people."""
    samples = "1 sample" if verdict.n_samples == 1 else f"{verdict.n_samples} samples"
    return f"{verdict.sentence} (after {format_duration_s(verdict.seconds)}, {samples})"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("wait-memory", epilog="Example: cuzkops wait-memory root@gpu1 --need 40GiB --timeout 20m")(wait_memory)
