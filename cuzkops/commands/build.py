"""``cuzkops build``: make the artifact."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import BaseImage, Builder, BuilderName, Timeout, duration_s, with_output
from cuzkops.project import find_project
from cuzkops.session import Session
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from cuzkops.steps.build import Artifact, BuildRequest

DEFAULT_ARTIFACT = Path("build/artifact")


@with_output
def build(
    session: Session,
    *,
    builder: Builder = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the artifact.")] = DEFAULT_ARTIFACT,
    base_image: BaseImage = None,
    timeout: Timeout = "60m",
) -> None:
    """Build the artifact: the prover, its libraries and its interpreter, in layers."""
    artifact = build_artifact(session, builder, base_image, out, timeout)
    session.screen.result(
        {"directory": str(artifact.directory), "manifest": artifact.manifest}, artifact_text(artifact)
    )


def build_request(builder: BuilderName | None, base_image: str | None, out: Path, timeout: str) -> BuildRequest:
    """Settle how to build: the options, else cuzkops.toml, else Docker."""
    from cuzkops.steps.build import BuildRequest  # noqa: PLC0415 - `--help` loads no builder

    project = find_project(Path.cwd())
    chosen = builder or BuilderName(project.builder or "docker")
    return BuildRequest(
        builder=chosen.value,
        out=out,
        base_image=base_image or project.base_image,
        timeout_s=duration_s(timeout),
    )


def build_artifact(
    session: Session, builder: BuilderName | None, base_image: str | None, out: Path, timeout: str
) -> Artifact:
    """Build, showing the builder's lines as they come."""
    from cuzkops.steps import build as step  # noqa: PLC0415 - `--help` loads no builder

    request = build_request(builder, base_image, out, timeout)
    session.screen.say(f"build: {request.builder}, into {out}")
    show = session.screen.say if session.screen.verbose else session.screen.progress
    return step.build(request, show)


def artifact_text(artifact: Artifact) -> str:
    """What an artifact is, for people."""
    manifest = artifact.manifest
    layers = ", ".join(f"{layer.name} {format_bytes(layer.n_bytes)}" for layer in manifest.layers)
    runtime = f"the host's Python {manifest.host_python.version}" if manifest.host_python else "with its own Python"
    return f"built {manifest.build_id} in {artifact.directory} ({runtime}, glibc {manifest.glibc_floor}: {layers})"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops build --builder local --out build/artifact")(build)
