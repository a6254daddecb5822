"""Make the artifact, with Docker or on this machine, and load one that was made.

The artifact is a folder: ``manifest.json`` and ``<sha256>.tar.gz`` a layer. Both builders run ``cuzkops.artifact``,
one in a stage of the Dockerfile, the other in this interpreter.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import ValidationError

from cuzkops.artifact.assemble import MANIFEST, Recipe, assemble
from cuzkops.artifact.layers import build_id, file_sha256
from cuzkops.errors import UsageError
from cuzkops.records import Layer, Manifest, first_problem
from cuzkops.steps.build_docker import docker_argv, docker_build, docker_client
from cuzkops.steps.workspace import turn, workspace, writing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Builder = Literal["docker", "local"]


@dataclass(frozen=True)
class Artifact:
    """A built artifact whose layers were found whole.

    Args:
        directory: Folder with ``manifest.json`` and the layers.
        manifest: What the folder says of itself.
    """

    directory: Path
    manifest: Manifest

    def layer_path(self, layer: Layer) -> Path:
        """Where the archive of a layer lies."""
        return self.directory / f"{layer.sha256}.tar.gz"


@dataclass(frozen=True)
class BuildRequest:
    """What to build and how.

    Args:
        builder: ``"docker"`` or ``"local"``.
        out: Folder of the artifact; an earlier artifact there is replaced once the new one is whole.
        project: Source tree with the Dockerfile, or None for the one that this module lies in.
        base_image: Base image of the Docker build, or None for the Dockerfile's own.
        gpu_archs: Architectures whose kernels the Docker build compiles, ``"all"`` or ``"none"``, or None for all.
        docker: Docker client, a name on PATH or a path.
        timeout_s: Deadline of the whole build in seconds.
    """

    builder: Builder
    out: Path
    project: Path | None = None
    base_image: str | None = None
    gpu_archs: str | None = None
    docker: str = field(default_factory=docker_client)
    timeout_s: float = 3600


def build(request: BuildRequest, progress: Callable[[str], None]) -> Artifact:
    """Build the artifact into ``request.out``; waits while another process builds there.

    Args:
        request: What to build and how.
        progress: Called with each line that the builder prints.

    Returns:
        The artifact, every digest checked.

    Raises:
        UsageError: The builder cannot run here (no Docker client, engine or BuildKit; a wheel or the source tree is
            missing), or ``request.out`` holds something that is no artifact.
        TimeoutExpired: ``timeout_s`` passed.
        OpsError: The build failed; ``details["last_lines"]`` holds the end of its output.
    """
    with built(request, progress) as artifact:
        return Artifact(request.out.absolute(), artifact.manifest)


@contextlib.contextmanager
def built(request: BuildRequest, progress: Callable[[str], None]) -> Iterator[Artifact]:
    """Build as ``build`` does, and keep what was built for a block, whatever others build into the folder meanwhile.

    Yields:
        The artifact, in a folder of this process alone.
    """
    deadline = time.monotonic() + request.timeout_s
    out = request.out.absolute()
    project = (request.project or Path(__file__).parents[2]).resolve()
    with writing(out):
        _check_replaceable(out)
        out.parent.mkdir(parents=True, exist_ok=True)
    with workspace(out) as temporary:
        with writing(out), turn(out, progress, deadline):
            made, kept = temporary / "artifact", temporary / "kept"
            made.mkdir()
            if request.builder == "docker":
                argv = docker_argv(request.docker, project, made, request.base_image, request.gpu_archs)
                docker_build(argv, progress, deadline)
            else:
                assemble(Recipe(project=project, out=made, deadline=deadline), progress)
            artifact = load_artifact(made)
            made.chmod(0o755)
            _keep(made, kept)
            if out.exists():
                out.rename(temporary / "replaced")
            made.rename(out)
        yield Artifact(kept, artifact.manifest)


def _keep(made: Path, kept: Path) -> None:
    """Give the files of an artifact second names, or copy them where the file system has no links."""
    kept.mkdir()
    for path in made.iterdir():
        try:
            (kept / path.name).hardlink_to(path)
        except OSError:  # no links there: a copy does as well
            shutil.copy(path, kept)


def _check_replaceable(out: Path) -> None:
    if out.is_dir() and not (out / MANIFEST).exists() and any(out.iterdir()):
        raise UsageError(
            "out-in-use", f"{out} holds other files than an artifact: it would be replaced", "name another"
        )
    if out.exists() and not out.is_dir():
        raise UsageError("out-in-use", f"{out} is not a folder", "name another")


def load_artifact(directory: Path) -> Artifact:
    """Read an artifact and check every digest.

    Raises:
        UsageError: No artifact lies there, its manifest cannot be read, or a layer is missing or damaged.
    """
    path = directory / MANIFEST
    try:
        manifest = Manifest.model_validate_json(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(
            "no-artifact", f"{directory} is no artifact: {MANIFEST}: {reason}", "make one with `cuzkops build`"
        ) from error
    except ValidationError as error:
        raise UsageError("bad-manifest", f"{path} cannot be read: {first_problem(error)}", "build it again") from error
    artifact = Artifact(directory, manifest)
    problems = [problem for layer in manifest.layers if (problem := _layer_problem(artifact, layer))]
    if manifest.build_id != build_id(manifest.layers):
        problems.append(f"build_id {manifest.build_id} is not that of the layers that the manifest lists")
    if problems:
        raise UsageError(
            "damaged-artifact",
            f"{directory} is damaged: {'; '.join(problems)}",
            "build it again",
            {"problems": problems},
        )
    return artifact


def _layer_problem(artifact: Artifact, layer: Layer) -> str:
    path = artifact.layer_path(layer)
    try:
        n_bytes = path.stat().st_size
        if n_bytes != layer.n_bytes:
            return f"layer {layer.name} has {n_bytes} bytes instead of {layer.n_bytes}"
        return "" if file_sha256(path) == layer.sha256 else f"layer {layer.name} does not have the digest that names it"
    except OSError as error:
        return f"layer {layer.name} ({path.name}): {error.strerror}"
