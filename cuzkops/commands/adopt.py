"""``cuzkops adopt``: take over a daemon that somebody started by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.kill import shown_text
from cuzkops.commands.options import on_host
from cuzkops.session import Place

if TYPE_CHECKING:
    from prover.protocol import DaemonRecord


@on_host
def adopt(
    place: Place,
    *,
    pid: Annotated[int, typer.Argument(metavar="PID", min=1, help="The process on the host.")],
) -> None:
    """Take over a process as the daemon: from then on kill, wait-memory, status and logs know it.

    Nothing is stopped or restarted; one file on the host says that this process is the daemon of that name.
    """
    from cuzkops.steps import adopt as step  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.aim import inspect_pid  # noqa: PLC0415 - the same

    with place.open() as (host, layout):
        place.screen.say(shown_text(inspect_pid(host, pid)))
        place.session.interrupted = (
            f"process {pid} runs on as before; `{place.command('status')}` says whether it is the daemon now"
        )
        with place.locked(host, layout, "adopt"):
            record = step.adopt(host, layout, pid)
        place.screen.result(record, adopted_text(record))


def adopted_text(record: DaemonRecord) -> str:
    """What is known of it now, for people."""
    logs = ", ".join(record.logs) or "none that is a file"
    return f"pid {record.pid} is the daemon {record.name} from now on; its logs: {logs}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops adopt 4242 root@gpu1")(adopt)
