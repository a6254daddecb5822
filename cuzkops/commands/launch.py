"""``cuzkops launch``: start a release that is on the host."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import DryRun, on_host
from cuzkops.errors import UsageError
from cuzkops.session import Place
from cuzkops.state import new_run_id
from cuzkops.units import format_duration_s, parse_duration_s

if TYPE_CHECKING:
    from cuzkops.steps.launch import LaunchResult

_RELEASE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


@on_host
def launch(
    place: Place,
    *,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            metavar="ID",
            help="A release on the host, or a beginning of its name; else the one launched last.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="DURATION", help="It must be ready after this long, such as 15m.")
    ] = "15m",
    dry_run: DryRun = False,
) -> None:
    """Start a release detached, and verify that what runs is what was shipped.

    Refuses where a daemon of that name runs already. A start that fails is undone, and its last log lines are shown.
    """
    from cuzkops.remote.lock import planned, this_process  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps import launch as step  # noqa: PLC0415 - the same
    from cuzkops.steps.rollback import find_release  # noqa: PLC0415 - the same
    from cuzkops.steps.status import current_release  # noqa: PLC0415 - the same
    from cuzkops.steps.verify import read_release  # noqa: PLC0415 - the same

    with place.open(remember=not dry_run) as (host, layout):
        if release is None:
            found = read_release(host, layout, current_release(host, layout))
        else:
            found = find_release(host, layout, _checked(release))
        deadline_s = parse_duration_s(timeout)
        request = step.LaunchRequest(
            found.release_id, new_run_id(), found.manifest, found.config_sha256, deadline_s=deadline_s
        )
        if dry_run:
            owner = this_process(place.session.state.client_id(), request.launch_id, "launch")
            place.screen.plan(planned(layout, owner, {"launch": step.plan_launch(layout, request)}))
            return
        with place.locked(host, layout, "launch"):
            result = step.launch(
                host,
                layout,
                request,
                lambda text: place.screen.say(f"launch: {text}"),
                lambda text: setattr(place.session, "interrupted", place.placed(text)),
            )
        place.screen.result(result, launched_text(result))


def launched_text(result: LaunchResult) -> str:
    """What runs now, for people."""
    daemon = result.daemon
    return (
        f"{daemon.name} runs release {daemon.release_id} as pid {daemon.pid}, ready after "
        f"{format_duration_s(result.seconds)}; its log is {result.log}"
    )


def _checked(release: str) -> str:
    if not _RELEASE_ID.match(release):
        raise UsageError("release", f"{release!r} is not the name of a release", "`cuzkops ship` prints it")
    return release


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops launch root@gpu1 --release 0a5504a91cd477d1-2551b8065474")(launch)
