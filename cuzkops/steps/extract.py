"""Build somebody else's project with its own Dockerfile, and take one file or folder out of the image."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cuzkops.artifact.command import run_command
from cuzkops.artifact.layers import file_sha256
from cuzkops.artifact.source import git
from cuzkops.errors import OpsError, UsageError
from cuzkops.records import ExtractRecord
from cuzkops.steps.build_docker import docker_client, explain, need_client, secrets
from cuzkops.steps.workspace import turn, workspace, writing

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = "build.json"
_STAGE = "cuzkops-extract"
_FROM = re.compile(r"^[ \t]*FROM[ \t]", re.IGNORECASE | re.MULTILINE)
_TARGET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MISSING = re.compile(r'.*failed to (?:compute cache key|calculate checksum).*"([^"]+)":? not found')


@dataclass(frozen=True)
class ExtractRequest:
    """What to build and what to take.

    Args:
        dockerfile: The Dockerfile.
        context: Folder that it builds from.
        extract: Absolute path in the image: a file, or a folder.
        out: Folder that receives it and ``build.json``; an earlier one of this kind is replaced.
        target: Stage of the Dockerfile, or None for its last one.
        docker: Docker client, a name on PATH or a path.
        timeout_s: Deadline of the whole build in seconds.
    """

    dockerfile: Path
    context: Path
    extract: str
    out: Path
    target: str | None = None
    docker: str = field(default_factory=docker_client)
    timeout_s: float = 3600


@dataclass(frozen=True)
class Extracted:
    """What was taken out of an image.

    Args:
        path: Where it lies.
        record: What it is and from what it was made; the content of ``build.json`` beside it.
    """

    path: Path
    record: ExtractRecord


def extract(request: ExtractRequest, progress: Callable[[str], None]) -> Extracted:
    """Build, and bring one path of the image to ``request.out``.

    Args:
        request: What to build and what to take.
        progress: Called with each line that the builder prints.

    Raises:
        UsageError: A path is wrong, the image has no such path, or Docker cannot build here.
        TimeoutExpired: ``timeout_s`` passed.
        OpsError: The build failed; ``details["last_lines"]`` holds the end of its output.
    """
    deadline = time.monotonic() + request.timeout_s
    with writing(request.out):
        _check(request)
        out = request.out.absolute()
        out.parent.mkdir(parents=True, exist_ok=True)
    with workspace(out) as temporary, writing(out), turn(out, progress, deadline):
        made, definition = temporary / "made", temporary / "Dockerfile"
        made.mkdir()
        definition.write_text(with_stage(_dockerfile_text(request.dockerfile), request.target, request.extract))
        ignored = request.dockerfile.with_name(f"{request.dockerfile.name}.dockerignore")
        if ignored.is_file():
            shutil.copy(ignored, temporary / "Dockerfile.dockerignore")
        _build(request, definition, made, progress, deadline)
        path = made / PurePosixPath(request.extract).name
        record = _describe(request, path)
        (made / RECORD).write_text(record.model_dump_json(by_alias=True, indent=2) + "\n")
        made.chmod(0o755)
        if out.exists():
            out.rename(temporary / "replaced")
        made.rename(out)
    return Extracted(out / path.name, record)


def _dockerfile_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        message = f"the Dockerfile {path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise UsageError("dockerfile", message, "name another with --dockerfile") from error


def with_stage(dockerfile: str, target: str | None, path: str) -> str:
    """Add a stage that holds one path of another stage and nothing else.

    Args:
        dockerfile: Its text.
        target: Name of the stage, or None for the last one.
        path: Absolute path in it.

    Raises:
        UsageError: The text has no stage.
    """
    n_stages = len(_FROM.findall(dockerfile))
    if n_stages == 0:
        raise UsageError("dockerfile", "the Dockerfile has no FROM", "name another with --dockerfile")
    source = target or str(n_stages - 1)
    name = PurePosixPath(path).name  # a folder's content goes where it is told, so that name is told
    words = f'["{path}", "/{name}"]'
    return f"{dockerfile.rstrip()}\n\nFROM scratch AS {_STAGE}\nCOPY --from={source} {words}\n"


def tree_sha256(path: Path) -> tuple[str, int]:
    """Digest and size in bytes of a file, or of a folder by the names, modes and contents of what is in it."""
    if path.is_file():
        return file_sha256(path), path.stat().st_size
    lines, n_bytes = [], 0
    for entry in sorted(path.rglob("*")):
        name = entry.relative_to(path).as_posix()
        if entry.is_symlink():
            lines.append(f"l {name} {os.readlink(entry)}")  # noqa: PTH115 - the text of the link, as it stands
        elif entry.is_file():
            kind = "x" if entry.stat().st_mode & 0o100 else "-"
            lines.append(f"{kind} {name} {file_sha256(entry)}")
            n_bytes += entry.stat().st_size
        else:
            lines.append(f"d {name}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest(), n_bytes


def _check(request: ExtractRequest) -> None:
    path = PurePosixPath(request.extract)
    problems = []
    if not request.dockerfile.is_file():
        problems.append(f"the Dockerfile {request.dockerfile} is not a file")
    if not request.context.is_dir():
        problems.append(f"the context {request.context} is not a folder")
    if not path.is_absolute() or ".." in path.parts or len(path.parts) < 2 or re.search(r'["\\\n*?\[]', str(path)):
        problems.append(f"{request.extract!r} is not an absolute path of one file or folder in the image")
    if path.name == RECORD:
        problems.append(f"{RECORD} is the name of what is written beside it: take its folder")
    if request.target is not None and not _TARGET.fullmatch(request.target):
        problems.append(f"{request.target!r} is not the name of a stage")
    out = request.out
    if out.exists() and not (out.is_dir() and ((out / RECORD).is_file() or not any(out.iterdir()))):
        problems.append(f"{out} holds something else, which would be replaced")
    if problems:
        raise UsageError("extract", "; ".join(problems), "see `cuzkops build --help`", {"problems": problems})
    need_client(request.docker)


def _build(
    request: ExtractRequest, definition: Path, made: Path, progress: Callable[[str], None], deadline: float
) -> None:
    argv: list[str | Path] = [
        *(request.docker, "build", "--progress=plain", "--target", _STAGE, "-f", definition),
        *(word for name, path in secrets().items() for word in ("--secret", f"id={name},src={path}")),
        *("-o", f"type=local,dest={made}", request.context),
    ]
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    ended = run_command(argv, title="docker build", progress=progress, deadline=deadline, env=environment)
    if ended.status != 0:
        for line in ended.lines:
            if (found := _MISSING.match(line)) and PurePosixPath("/", found[1]) == PurePosixPath(request.extract):
                where = f"stage {request.target}" if request.target else "the last stage"
                raise UsageError(
                    "extract-missing", f"{where} of {request.dockerfile} has no {request.extract}", "check --extract"
                )
        explain(ended, request.docker)


def _describe(request: ExtractRequest, path: Path) -> ExtractRecord:
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        what = "a link" if path.is_symlink() else "a device, a pipe or a socket"
        raise OpsError("extract-kind", f"{request.extract} in the image is neither a file nor a folder: it is {what}")
    sha256, n_bytes = tree_sha256(path)
    folder = request.context.resolve()
    commit = git(folder, "rev-parse", "HEAD")
    return ExtractRecord(
        extract=request.extract,
        name=path.name,
        kind="file" if path.is_file() else "folder",
        sha256=sha256,
        n_bytes=n_bytes,
        git=commit,
        dirty=bool(commit and git(folder, "status", "--porcelain", "--", ".")),
        dockerfile=str(request.dockerfile),
        dockerfile_sha256=file_sha256(request.dockerfile),
        target=request.target,
        built_unix_ns=time.time_ns(),
    )
