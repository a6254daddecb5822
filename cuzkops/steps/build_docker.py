"""The Docker builder: one ``docker build`` whose last stage is exported as a folder.

Nothing of this machine's package configuration enters an image: it is passed as build secrets, which a stage sees
while it runs and which take no part in the cache.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.command import Ended, run_command
from cuzkops.artifact.source import revision
from cuzkops.errors import OpsError, UsageError
from cuzkops.paths import expanded

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_BASE_IMAGE = "|".join(  # noqa: FLY002 - one kind of message a line
    (
        "pull access denied",
        "failed to resolve source metadata",
        "failed to do request",
        "failed to (solve|create LLB).*: not found",
    )
)
_GPU_ARCHS = re.compile(r"all|none|(compute_)?[0-9]{2,3}([ ,]+(compute_)?[0-9]{2,3})*")
# What the client or the engine prints, as a pattern -> code, sentence, hint. The first that fits is the reason.
_KNOWN = (
    (
        "BuildKit is enabled but the buildx component is missing",
        "docker-no-buildx",
        "the Docker client {docker} lacks the buildx component that its BuildKit needs",
        "install docker-buildx, or name another client in CUZKOPS_DOCKER",
    ),
    (
        "Cannot connect to the Docker daemon",
        "docker-engine",
        "no Docker engine answers the client {docker}",
        "start the engine, or build with --builder local",
    ),
    (
        "permission denied while trying to connect",
        "docker-permission",
        "this user may not speak to the Docker engine",
        "join the group docker, or build with --builder local",
    ),
    (
        "no space left on device",
        "docker-disk",
        "the disk of the Docker engine is full",
        "free some: docker builder prune",
    ),
    (
        "Unsupported gpu architecture",
        "gpu-archs",
        "the CUDA compiler cannot build for a GPU architecture: {line}",
        "name others with --gpu-archs: docs/KERNELS.md says which ones `all` are",
    ),
    (
        _NO_BASE_IMAGE,
        "docker-base-image",
        "the base image of the build cannot be pulled: {line}",
        "name one that this machine may pull with --base-image, or pull or load it beforehand",
    ),
)


def docker_argv(
    docker: str, project: Path, out: Path, base_image: str | None = None, gpu_archs: str | None = None
) -> list[str | Path]:
    """The whole command that builds the artifact of a source tree; a secret is named only where its file exists.

    Args:
        docker: Docker client, a name on PATH or a path.
        project: Source tree with the Dockerfile.
        out: Existing empty folder.
        base_image: Base image, or None for the Dockerfile's own.
        gpu_archs: Architectures whose kernels are compiled, or None for the Dockerfile's own.

    Raises:
        UsageError: No Docker client or no Dockerfile.
    """
    need_client(docker)
    if not (project / "Dockerfile").is_file():
        raise UsageError("no-project", f"{project} has no Dockerfile", "name the source tree, or run from a checkout")
    tree = revision(project)
    arguments = {"GIT_REVISION": tree.git, "GIT_DIRTY": str(tree.dirty).lower()}
    if base_image:
        arguments["BASE_IMAGE"] = base_image
    if gpu_archs:
        arguments["GPU_ARCHS"] = gpu_archs
    return [
        *(docker, "build", "--progress=plain", "--target", "artifact"),
        *(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")),
        *(word for name, path in secrets().items() for word in ("--secret", f"id={name},src={path}")),
        *("-o", f"type=local,dest={out}", project),
    ]


def checked_gpu_archs(text: str, place: str) -> str:
    """The GPU architectures that a text from ``place`` names, as the Dockerfile takes them: sm_90 is 90.

    Raises:
        UsageError: It names something else, or nothing.
    """
    plain = re.sub(r"\bsm_(?=[0-9])", "", text.strip())
    if not _GPU_ARCHS.fullmatch(plain):
        message = f"{place}: {text!r} names no GPU architectures"
        raise UsageError("gpu-archs", message, 'write numbers such as "90 100", names such as compute_90, all or none')
    return plain


def secrets() -> dict[str, Path]:
    """Package configuration of this machine: id of the build secret -> file.

    ``ca_bundle`` is $SSL_CERT_FILE; ``pip_conf`` is the first of $PIP_CONFIG_FILE, ~/.config/pip/pip.conf and
    /etc/pip.conf; ``apt_conf`` is $CUZKOPS_APT_CONF, a file for apt.conf.d.
    """
    candidates = {
        "ca_bundle": [os.environ.get("SSL_CERT_FILE")],
        "pip_conf": [os.environ.get("PIP_CONFIG_FILE"), "~/.config/pip/pip.conf", "/etc/pip.conf"],
        "apt_conf": [os.environ.get("CUZKOPS_APT_CONF")],
    }
    files = {name: [expanded(text, name).absolute() for text in texts if text] for name, texts in candidates.items()}
    return {name: found for name, paths in files.items() if (found := next(filter(Path.is_file, paths), None))}


def docker_build(argv: list[str | Path], progress: Callable[[str], None], deadline: float) -> None:
    """Run what ``docker_argv`` gives.

    Args:
        argv: The command.
        progress: Called with each line of BuildKit.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Raises:
        UsageError: No engine or BuildKit.
        TimeoutExpired: The deadline passed.
        OpsError: The build failed.
    """
    began = time.monotonic()
    ended = run_command(
        argv,
        title="docker build",
        progress=progress,
        deadline=deadline,
        env=os.environ | {"DOCKER_BUILDKIT": "1"},
    )
    explain(ended, str(argv[0]))
    progress(f"docker build: {time.monotonic() - began:.0f} s")


def docker_client() -> str:
    """The Docker client to use: $CUZKOPS_DOCKER, else ``docker`` on PATH."""
    return os.environ.get("CUZKOPS_DOCKER") or "docker"


def need_client(docker: str) -> None:
    """Refuse where there is no Docker client of that name.

    Raises:
        UsageError: There is none.
    """
    if shutil.which(docker) is None:
        raise UsageError(
            "no-docker",
            f"there is no Docker client {docker!r} on this machine",
            "install Docker, name its client in CUZKOPS_DOCKER, or build with --builder local",
        )


def explain(ended: Ended, docker: str) -> None:
    """Say in one sentence why a ``docker build`` failed; does nothing where it did not.

    Raises:
        UsageError: Docker cannot build here, or not this.
        OpsError: It failed for another reason.
    """
    if ended.status == 0:
        return
    output = "\n".join(ended.lines)
    for pattern, code, sentence, hint in _KNOWN:
        if found := re.search(f".*({pattern}).*", output, re.IGNORECASE):
            kind = OpsError if code == "docker-disk" else UsageError
            message = sentence.format(docker=docker, line=found[0].strip())
            raise kind(code, message, hint, {"last_lines": ended.lines[-20:]})
    ended.check()
