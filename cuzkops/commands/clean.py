"""``cuzkops clean``: remove releases that nobody will go back to, and what no release names any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.commands.options import KEEP, DryRun, Keep, on_host
from cuzkops.session import Place

if TYPE_CHECKING:
    import typer

    from cuzkops.steps.clean import CleanPlan


@on_host
def clean(place: Place, *, keep: Keep = KEEP, dry_run: DryRun = False) -> None:
    """Remove old releases of a daemon, and the layers and keys that no release of any daemon names.

    What runs, the current release and the one that a rollback goes to stay in any case. --dry-run lists what would go.
    """
    from cuzkops.steps import clean as step  # noqa: PLC0415 - `--help` loads no records

    with place.open(remember=False) as (host, layout):
        if dry_run:
            plan = step.plan_clean(host, layout, keep)
            place.screen.say(plan_text(plan, "would remove"))
            place.screen.plan([] if plan.is_empty else [step.clean_script(layout, plan)])
            return
        place.session.interrupted = f"what was removed is gone; go on with: {place.again('clean')}"
        with place.locked(host, layout, "clean"):
            result = step.clean(host, layout, keep)
        place.screen.say(plan_text(result.removed, "removed"))
        place.screen.result(result, "nothing to remove" if result.removed.is_empty else result.sentence)


def plan_text(plan: CleanPlan, verb: str) -> str:
    """What goes, by name, and why something stays, for people; ``verb`` is ``"removed"`` or what would be done."""
    kinds = (("release", plan.releases), ("layer", plan.layers), ("key", plan.circuits))
    lines = [f"{verb} {kind} {name}" for kind, names in kinds for name in names] or [
        "everything there is in use or kept"
    ]
    if plan.unknown:
        lines.append(
            f"what {', '.join(plan.unknown)} may use stays: it does not say what it is made of; "
            "ship it again, or remove it by hand"
        )
    return "\n".join(lines)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops clean root@gpu1 --keep 2 --dry-run")(clean)
