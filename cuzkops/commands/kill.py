"""``cuzkops kill``: stop a daemon, or exactly one process that stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import DryRun, Grace, Yes, grace_s, on_host
from cuzkops.errors import OpsError, UsageError
from cuzkops.session import Place

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import ProcessInfo

_OTHERS_SHOWN = 8


@on_host
def kill(
    place: Place,
    *,
    pid: Annotated[
        int | None,
        typer.Option("--pid", metavar="PID", min=1, help="Stop exactly this process and its descendants instead."),
    ] = None,
    grace: Grace = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Stop the daemon: let it finish its jobs, and SIGKILL it after the grace time.

    A daemon that cannot be asked gets its stop signal. Repeating the command goes on with the same processes and
    hurries nobody; --grace does. The process is shown first: pid, executable, owner, start, size and command line.
    `--pid` asks before it stops anything, and needs --yes where nobody can be asked. What the daemon held is written
    down before, so that `cuzkops wait-memory` can tell when it is back.
    """
    from cuzkops.remote.lock import planned, this_process  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.state import new_run_id  # noqa: PLC0415 - the same
    from cuzkops.steps import kill as step  # noqa: PLC0415 - the same
    from cuzkops.steps.aim import KillRequest  # noqa: PLC0415 - the same

    screen, stop_s = place.screen, grace_s(grace)
    with place.open(remember=not dry_run) as (host, layout):
        shown = _show(place, host, layout, pid)
        request = KillRequest(pid, shown.start_ticks if shown and pid else None, stop_s, "cuzkops kill")
        if dry_run:
            owner = this_process(place.session.state.client_id(), new_run_id(), "kill")
            screen.plan(planned(layout, owner, {"kill": step.plan_kill(host, layout, request)}))
            return
        if shown and not yes and not _confirmed(place, pid):
            raise OpsError("not-confirmed", "nothing was stopped: the answer was no")
        place.session.interrupted = (
            f"it may have been told to stop; `{place.command('status')}` shows what runs, "
            f"and `{place.again('kill')}` goes on with the same processes"
        )
        with place.locked(host, layout, "kill"):
            result = step.kill(host, layout, request, lambda text: screen.say(f"kill: {text}"))
        after = "" if result.record is None else f"\nits memory may need longer: {place.command('wait-memory')}"
        screen.result(result, result.sentence + after)


def shown_text(process: ProcessInfo) -> str:
    """A process as it is shown before it is stopped or adopted."""
    from cuzkops.remote.daemon import describe_process  # noqa: PLC0415 - `--help` loads no records

    return f"{describe_process(process)}\n  {process.cmdline or '(its command line cannot be read)'}"


def _show(place: Place, host: Host, layout: Layout, pid: int | None) -> ProcessInfo | None:
    """Show what would be stopped; returns the first process of it, or None where nothing runs."""
    from cuzkops.remote.daemon import describe_process  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.aim import KillRequest, find_aim, inspect_pid  # noqa: PLC0415 - the same

    if pid is not None:
        inspect_pid(host, pid)  # refuses one that does not exist, or is a zombie
    aim = find_aim(host, layout, KillRequest(pid))
    if aim is None:
        return None
    leader, *others = aim.processes
    if aim.what:
        place.screen.say(aim.what)
    place.screen.say(shown_text(leader))
    for process in others[:_OTHERS_SHOWN]:
        place.screen.say(f"and with it {describe_process(process)}")
    if len(others) > _OTHERS_SHOWN:
        place.screen.say(f"and {len(others) - _OTHERS_SHOWN} more processes of its family")
    return leader


def _confirmed(place: Place, pid: int | None) -> bool:
    """Whether to go on: a PID is always asked about, and the daemon where the target was only remembered."""
    if pid is None and (place.target_source != "the last command" or not place.screen.interactive):
        return True
    if not place.screen.interactive:
        raise UsageError("not-confirmed", "nothing was stopped: nobody can be asked", "add --yes")
    return place.screen.confirm(f"Stop it on {place.target}?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops kill root@gpu1 --grace 60s")(kill)
