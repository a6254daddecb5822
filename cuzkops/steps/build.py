"""Make the artifact, with Docker or on this machine, and load one that was made.

The artifact is a folder: ``manifest.json`` and ``<sha256>.tar.gz`` a layer. Both builders run ``cuzkops.artifact``,
one in a stage of the Dockerfile, the other in this interpreter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.records import Layer, Manifest

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
        docker: Docker client, a name on PATH or a path.
        timeout_s: Deadline of the whole build in seconds.
    """

    builder: Builder
    out: Path
    project: Path | None = None
    base_image: str | None = None
    docker: str = "docker"
    timeout_s: float = 3600


def build(request: BuildRequest, progress: Callable[[str], None]) -> Artifact:
    """Build the artifact into ``request.out``.

    Args:
        request: What to build and how.
        progress: Called with each line that the builder prints.

    Returns:
        The artifact, every digest checked.

    Raises:
        UsageError: The builder cannot run here (no Docker client, engine or BuildKit; no compiler; no source tree).
        TimeoutExpired: ``timeout_s`` passed.
        OpsError: The build failed; ``details["last_lines"]`` holds the end of its output.
    """
    raise NotImplementedError


def load_artifact(directory: Path) -> Artifact:
    """Read an artifact and check every digest.

    Raises:
        UsageError: No artifact lies there, its manifest cannot be read, or a layer is missing or damaged.
    """
    raise NotImplementedError
