"""``cuzkops demo``: the whole loop on this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import with_output
from cuzkops.errors import UsageError
from cuzkops.session import Session
from cuzkops.state import State
from cuzkops.units import format_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.demo import DemoReport


@with_output
def demo(
    session: Session,
    *,
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="Keep the host, artifact and logs in this folder.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the whole loop on this machine: build, ship, launch, prove, deploy again over it, and read the timing log.

    A small SSH host is started on loopback for it. Nothing outside of one folder is touched, and nothing is left
    running, also after an error or Ctrl-C.
    """
    from cuzkops.commands.deploy import DeployView  # noqa: PLC0415 - `--help` starts nothing
    from cuzkops.demo import Demo  # noqa: PLC0415 - the same

    screen = session.screen
    session.interrupted = "the demo's daemon and host were stopped"
    with _folder(keep) as folder:
        state = State(folder / "state")
        work = Demo(
            folder=folder,
            state=state,
            observer=lambda run: DeployView(Session(screen, state), run, "cuzkops demo"),
            say=screen.say,
            show=screen.work,
        )
        report = work.run()
        screen.result(
            {
                "seconds": report.seconds,
                "steps": report.steps,
                "releases": report.releases,
                "n_proofs": report.n_proofs,
                "table": report.table.as_json(),
            },
            report_text(report, keep),
        )


def report_text(report: DemoReport, keep: Path | None) -> str:
    """What the demo did, for people."""
    width = max(len(step.title) for step in report.steps)
    lines = [f"{step.title.ljust(width)}  {step.seconds:7.2f} s" for step in report.steps]
    kept = f"; everything is kept in {keep}" if keep else "; nothing is left behind"
    return "\n".join(
        [
            report.table.as_text(),
            *lines,
            "",
            f"{report.n_proofs} proofs by two releases in {format_duration_s(report.seconds)}{kept}",
        ]
    )


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    import tempfile  # noqa: PLC0415 - `--help` writes nothing, and this loads the random numbers too

    if keep is None:
        with tempfile.TemporaryDirectory(prefix="cuzkops-demo-") as name:
            yield Path(name)
        return
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError("keep", f"{keep} exists and is not an empty folder", "name another")
    yield keep.absolute()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops demo --keep demo")(demo)
