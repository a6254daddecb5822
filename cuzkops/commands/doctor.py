"""``cuzkops doctor``: look at everything that the other commands need."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.build import DEFAULT_ARTIFACT
from cuzkops.commands.options import on_host
from cuzkops.errors import OpsError, UsageError
from cuzkops.session import Place

if TYPE_CHECKING:
    from cuzkops.steps.doctor import Check


@on_host
def doctor(
    place: Place,
    *,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where artifacts are built.")] = DEFAULT_ARTIFACT,
) -> None:
    """Look at this machine and at a host: keys, agent, Docker, disks, tools, versions, and what is in the way.

    One line each, with what to do about it. Changes nothing, trusts no new host key, and ends with status 2 where
    something stands in the way of a deploy. The target `local` looks at this machine alone.
    """
    from cuzkops.steps import doctor as step  # noqa: PLC0415 - `--help` loads no records

    checks = step.examine_here(out, place.session.state.root)
    checks += step.examine_login(place.target, place.identity)
    try:
        with replace(place, host_key="strict").open(remember=False) as (host, layout):
            checks += step.examine_host(host, layout)
    except OpsError as error:
        checks.append(step.Check("connection", "error", error.message, error.hint))
    errors = [check for check in checks if check.state == "error"]
    if errors:
        place.screen.say(checks_text(checks))
        raise UsageError(
            "doctor",
            f"{len(errors)} of {len(checks)} things are in the way: {', '.join(check.name for check in errors)}",
            details={"checks": [vars(check) for check in checks]},
        )
    place.screen.result({"checks": checks}, checks_text(checks))


def checks_text(checks: list[Check]) -> str:
    """One line each, for people."""
    width = max(len(check.name) for check in checks)
    return "\n".join(
        f"{check.state:7}  {check.name:{width}}  {check.message}" + (f" -> {check.hint}" if check.hint else "")
        for check in checks
    )


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops doctor root@gpu1")(doctor)
