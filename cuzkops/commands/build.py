"""``cuzkops build``: make the artifact."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import BaseImage, Builder, BuilderName, GpuArchs, Timeout, with_output
from cuzkops.errors import UsageError
from cuzkops.paths import current_folder
from cuzkops.project import find_project
from cuzkops.session import Session
from cuzkops.units import format_bytes, parse_duration_s

if TYPE_CHECKING:
    from cuzkops.project import Project
    from cuzkops.steps.build import Artifact, BuildRequest

DEFAULT_ARTIFACT = Path("build/artifact")
DEFAULT_EXTRACTED = Path("build/extracted")


@with_output
def build(
    session: Session,
    *,
    builder: Builder = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Folder of the artifact. [default: build/artifact; build/extracted with --extract]",
            show_default=False,
        ),
    ] = None,
    base_image: BaseImage = None,
    gpu_archs: GpuArchs = None,
    dockerfile: Annotated[
        Path | None,
        typer.Option(
            "--dockerfile",
            metavar="FILE",
            help="With --extract: the Dockerfile of another project. [default: Dockerfile in its context]",
            show_default=False,
        ),
    ] = None,
    build_context: Annotated[
        Path, typer.Option("--context", metavar="DIR", help="With --extract: the folder that it builds from.")
    ] = Path(),
    target: Annotated[
        str | None,
        typer.Option(
            "--target", metavar="STAGE", help="With --extract: a stage; else its last one.", show_default=False
        ),
    ] = None,
    extract: Annotated[
        str | None,
        typer.Option(
            "--extract",
            metavar="PATH",
            help="Build another project, and take this file or folder out of the image.",
            show_default=False,
        ),
    ] = None,
    timeout: Timeout = "60m",
) -> None:
    """Build the artifact: the prover, its libraries and its interpreter, in layers.

    With --extract, build another project by its own Dockerfile instead, such as a daemon in Rust, and take one file or
    folder out of the image; build.json beside it says its digest, size and revision.
    """
    if extract is not None:
        _refuse_ours(builder, base_image, gpu_archs)
        _extract(session, dockerfile, build_context, target, extract, out=out, timeout=timeout)
        return
    if dockerfile is not None or target is not None or build_context != Path():
        message = "--dockerfile, --context and --target say how another project is built"
        raise UsageError("build", message, "add --extract PATH, the file to take out of the image")
    artifact = build_artifact(session, build_request(builder, base_image, gpu_archs, out or DEFAULT_ARTIFACT, timeout))
    session.screen.result(
        {"directory": str(artifact.directory), "manifest": artifact.manifest}, artifact_text(artifact)
    )


def _refuse_ours(*options: str | None) -> None:
    if any(option is not None for option in options):
        message = "--builder, --base-image and --gpu-archs say how our own prover is built"
        raise UsageError("build", message, "leave them out with --extract: that Dockerfile says it itself")


def _extract(
    session: Session,
    dockerfile: Path | None,
    context: Path,
    target: str | None,
    path: str,
    *,
    out: Path | None,
    timeout: str,
) -> None:
    from cuzkops.steps import extract as step  # noqa: PLC0415 - `--help` loads no builder

    dockerfile = dockerfile or context / "Dockerfile"
    request = step.ExtractRequest(
        dockerfile, context, path, out or DEFAULT_EXTRACTED, target, timeout_s=parse_duration_s(timeout)
    )
    session.screen.say(f"build: {dockerfile}, {path} into {request.out}")
    found = step.extract(request, session.screen.work)
    record = found.record
    revision = f"revision {record.git[:12]}{' with changes' if record.dirty else ''}" if record.git else "no revision"
    text = f"built {found.path}: sha256 {record.sha256}, {format_bytes(record.n_bytes)}, {revision}"
    session.screen.result({"path": str(found.path), "build": record}, text)


def build_request(
    builder: BuilderName | None, base_image: str | None, gpu_archs: str | None, out: Path, timeout: str
) -> BuildRequest:
    """Settle how to build: the options, else cuzkops.toml, else Docker.

    Raises:
        UsageError: They contradict each other, or name no GPU architectures.
    """
    from cuzkops.steps.build import BuildRequest  # noqa: PLC0415 - `--help` loads no builder

    project = find_project(current_folder())
    chosen = builder or BuilderName(project.builder or "docker")
    if chosen == BuilderName.LOCAL and (base_image is not None or gpu_archs not in (None, "none")):
        message = "--base-image and --gpu-archs say how Docker builds, and this is a local build: it has no GPU kernels"
        raise UsageError("build", message, "leave them out, or build with --builder docker")
    return BuildRequest(
        builder=chosen.value,
        out=out,
        base_image=base_image or project.base_image,
        gpu_archs=_gpu_archs(gpu_archs, project) if chosen == BuilderName.DOCKER else None,
        timeout_s=parse_duration_s(timeout),
    )


def _gpu_archs(option: str | None, project: Project) -> str | None:
    from cuzkops.steps.build_docker import checked_gpu_archs  # noqa: PLC0415 - `--help` loads no builder

    if option is not None:
        return checked_gpu_archs(option, "--gpu-archs")
    if text := os.environ.get("GPU_ARCHS"):
        return checked_gpu_archs(text, "$GPU_ARCHS")
    return project.gpu_archs and checked_gpu_archs(project.gpu_archs, f"gpu_archs in {project.file}")


def build_artifact(session: Session, request: BuildRequest) -> Artifact:
    """Build, showing the builder's lines as they come."""
    from cuzkops.steps import build as step  # noqa: PLC0415 - `--help` loads no builder

    session.screen.say(f"build: {request.builder}, into {request.out}")
    return step.build(request, session.screen.work)


def artifact_text(artifact: Artifact) -> str:
    """What an artifact is, for people."""
    manifest = artifact.manifest
    layers = ", ".join(f"{layer.name} {format_bytes(layer.n_bytes)}" for layer in manifest.layers)
    runtime = f"the host's Python {manifest.host_python.version}" if manifest.host_python else "with its own Python"
    return f"built {manifest.build_id} in {artifact.directory} ({runtime}, glibc {manifest.glibc_floor}: {layers})"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops build --builder local --out build/artifact")(build)
