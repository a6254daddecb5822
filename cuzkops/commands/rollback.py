"""``cuzkops rollback``: go back to a release that ran before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.deploy import DeployView, last_peak_bytes, recorded
from cuzkops.commands.options import DryRun, Grace, Need, Thorough, Timeout, grace_s, on_host, size_bytes
from cuzkops.session import Place
from cuzkops.state import new_run_id
from cuzkops.units import format_duration_s, format_instant, parse_duration_s

if TYPE_CHECKING:
    from cuzkops.steps.rollback import ListedRelease, RollbackResult


@on_host
def rollback(
    place: Place,
    *,
    release: Annotated[
        str | None,
        typer.Option(
            "--release",
            metavar="ID",
            help="A release on the host, or a beginning of its name; else the one that ran before.",
            show_default=False,
        ),
    ] = None,
    need: Need = None,
    timeout: Timeout = "30m",
    grace: Grace = None,
    thorough: Thorough = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="Only list the releases on the host, the newest first.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Go back to the release that ran before, or to a named one: its artifact, configuration and circuits.

    The steps are those of a deploy: nothing is stopped before the release was found whole and has checked its
    configuration, and if it does not start, the release that ran until now is started again. Repeated, it goes back
    and forth between the last two.
    """
    from cuzkops.remote.lock import this_process  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps import rollback as step  # noqa: PLC0415 - the same
    from cuzkops.steps.replace import Terms  # noqa: PLC0415 - the same

    state = place.session.state
    with place.open(remember=not (dry_run or list_only)) as (host, layout):
        if list_only:
            found = step.list_releases(host, layout)
            place.screen.result({"releases": found}, releases_text(found))
            return
        run = state.run(new_run_id()) if dry_run else state.new_run()
        terms = Terms(
            run_id=run.run_id,
            reason=f"rollback {run.run_id}",
            need_bytes=size_bytes(need),
            last_peak_bytes=last_peak_bytes(state, str(place.target), place.name),
            grace_s=grace_s(grace),
            wait_timeout_s=parse_duration_s(timeout),
            state=state,
        )
        owner = this_process(state.client_id(), run.run_id, "rollback")
        request = step.RollbackRequest(release, owner, terms, thorough)
        if dry_run:
            place.screen.plan(step.plan_rollback(host, layout, request))
            return
        with recorded(place, run, "rollback"):
            view = DeployView(place.session, run, place.again("rollback"), place.placed)
            result = step.rollback(host, layout, request, view)
        run.write(result.run)
    place.screen.result(result, rolled_back_text(place, result))


def releases_text(releases: list[ListedRelease]) -> str:
    """A line a release, for people."""
    lines = []
    for release in releases:
        built = "its manifest cannot be read"
        if release.built_unix_ns is not None:
            revision = f", revision {release.git[:12]}{' with changes' if release.dirty else ''}" if release.git else ""
            built = f"built {format_instant(release.built_unix_ns // 10**9)}{revision}"
        notes = [built] if release.was_ready else ["was never ready", built]
        if release.differs:
            notes.append(f"another {', '.join(release.differs)} than the current one")
        lines.append(f"{release.release_id}  {release.role:8}  {'; '.join(notes)}")
    return "\n".join(lines) or "no release is on the host"


def rolled_back_text(place: Place, result: RollbackResult) -> str:
    """What runs now, for people."""
    daemon = result.launched.daemon
    return (
        f"{daemon.name} on {place.target} runs release {daemon.release_id} again as pid {daemon.pid} "
        f"(rolled back in {format_duration_s(result.seconds)})"
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops rollback root@gpu1 --release 0a5504a91cd477d1-2551b8065474")(rollback)
