"""``cuzkops ship``: bring a release to a host without touching what runs there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cuzkops.commands.build import DEFAULT_ARTIFACT
from cuzkops.commands.options import KEEP, Artifact, Budget, Circuits, Config, DryRun, Keep, Thorough, on_host
from cuzkops.errors import UsageError
from cuzkops.paths import expanded
from cuzkops.rendering import Meter
from cuzkops.session import Place
from cuzkops.units import format_bytes, format_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import typer

    from cuzkops.configuration import DeployConfig
    from cuzkops.rendering import Screen
    from cuzkops.steps.ship import ShipResult, Transfer


@on_host
def ship(
    place: Place,
    *,
    artifact: Artifact = None,
    config: Config = None,
    circuit: Circuits = None,
    budget: Budget = None,
    thorough: Thorough = False,
    keep: Keep = KEEP,
    dry_run: DryRun = False,
) -> None:
    """Bring an artifact, its configuration and its circuits to a host.

    Only what the host lacks travels, and an upload that was cut goes on where it stopped. What is there is verified by
    digest, and what was damaged is named and replaced. The daemon that runs there is not touched; `cuzkops launch`
    starts the new one.
    """
    from cuzkops.steps import ship as step  # noqa: PLC0415 - `--help` loads no records
    from cuzkops.steps.build import load_artifact  # noqa: PLC0415 - the same
    from cuzkops.steps.check_here import check_here  # noqa: PLC0415 - the same
    from cuzkops.steps.findings import raise_findings  # noqa: PLC0415 - the same
    from cuzkops.steps.preflight import refuse_losing_circuits  # noqa: PLC0415 - the same

    carried = carried_config(place, config, circuit, budget)
    request = step.ShipRequest(load_artifact(artifact or DEFAULT_ARTIFACT), carried, thorough, keep)
    place = replace(place, name=carried.name)
    with place.open(remember=not dry_run) as (host, layout):
        refuse_losing_circuits(host, layout, carried)
        if dry_run:
            place.screen.plan(step.plan_ship(layout, request))
            return
        here = check_here(request.artifact, carried)  # before anything travels
        raise_findings(here.findings)
        place.screen.detail(here.sentence)
        place.session.interrupted = f"what arrived stays and is not sent again; go on with: {place.again('ship')}"
        with place.locked(host, layout, "ship"):
            result = step.ship(
                host,
                layout,
                request,
                transfers_shown(place.screen),
                lambda text: place.screen.say(f"ship: {text}"),
            )
        start = f"start it with: {place.command('launch')} --release {result.release_id}"
        place.screen.result(result, f"{shipped_text(result)}\n{start}")


def carried_config(place: Place, config: Path | None, circuits: list[str] | None, budget: str | None) -> DeployConfig:
    """Settle what travels besides the artifact: the options, else cuzkops.toml, else a default configuration.

    Raises:
        UsageError: It is wrong; the prover beside this tool has looked at the rest of it, so that all is named at once.
    """
    from cuzkops import configuration  # noqa: PLC0415 - `--help` reads no configuration

    try:
        return configuration.load_configuration(
            config or place.project.config,
            name=place.name if place.name_given else None,
            circuits=named_paths(circuits or []),
            budget=budget,
        )
    except configuration.ConfigurationProblemsError as error:
        from cuzkops.steps.check_here import check_by_tool  # noqa: PLC0415 - the same

        more = [(f"{error.rest.source}: {found.message}", found.hint) for found in check_by_tool(error.rest).findings]
        raise configuration.ConfigurationProblemsError([*error.problems, *more], error.rest) from None


def named_paths(words: list[str]) -> dict[str, Path]:
    """Read ``NAME=PATH`` words.

    Raises:
        UsageError: A word is not of that form, or a name stands twice.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not (name and equals and path):
            raise UsageError("circuit", f"{word!r} is not NAME=ZKEY", "write for example --circuit mul60=mul60.zkey")
        if name in found:
            raise UsageError("circuit", f"the circuit {name} is given twice", "give each name once")
        found[name] = expanded(path, f"the circuit {name}")
    return found


def transfers_shown(screen: Screen) -> Callable[[Transfer], None]:
    """What shows on a screen how far each upload is, with its rate and the time left."""
    meter = Meter()

    def show(transfer: Transfer) -> None:
        screen.progress(f"ship: {meter.text(transfer.item, transfer.done_bytes, transfer.total_bytes)}")

    return show


def shipped_text(result: ShipResult) -> str:
    """What travelled, for people."""
    sent = (
        f"sent {', '.join(result.sent)} ({format_bytes(result.bytes_sent)})" if result.sent else "nothing had to travel"
    )
    return f"release {result.release_id} is on the host: {sent} in {format_duration_s(result.seconds)}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops ship root@gpu1 --artifact build/artifact --circuit mul60=mul60.zkey")(ship)
