"""``cuzkops unlock``: remove the lock that an interrupted client left on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.commands.options import DryRun, Yes, on_host
from cuzkops.errors import UsageError
from cuzkops.session import Place

if TYPE_CHECKING:
    import typer


@on_host
def unlock(place: Place, *, yes: Yes = False, dry_run: DryRun = False) -> None:
    """Remove the lock of a host, after showing who holds it.

    A lock of this client whose process is dead is taken over without this.
    """
    from cuzkops.remote.lock import STILL_RUNS, fate  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.remote.lock import read as read_lock  # noqa: PLC0415 - the same
    from cuzkops.steps import unlock as step  # noqa: PLC0415 - the same

    with place.open(remember=False) as (host, layout):
        if dry_run:
            place.screen.plan(step.plan_unlock(layout))
            return
        holder = read_lock(host, layout)
        if holder is None:
            place.screen.result({"unlocked": False, "holder": None}, f"{place.target} is not locked")
            return
        known = fate(holder, place.session.state.known_client_id())
        place.screen.say(f"the lock of {place.target} is held by {holder}{f'; {known}' if known else ''}")
        if known == STILL_RUNS:
            place.screen.say("warning: what runs under this lock stops before its next step once it is removed")
        if not yes:
            if not place.screen.interactive:
                raise UsageError("not-confirmed", "the lock was not removed: nobody can be asked", "add --yes")
            if not place.screen.confirm("Remove it? A deploy that still runs would be disturbed."):
                place.screen.result({"unlocked": False, "holder": holder}, "the lock was left alone")
                return
        place.session.interrupted = f"the lock may have been removed; `{place.command('status')}` shows who holds it"
        removed = step.unlock(host, layout) or holder
        place.screen.result({"unlocked": True, "holder": removed}, f"removed the lock of {place.target}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops unlock root@gpu1 --yes")(unlock)
