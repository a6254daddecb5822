"""``cuzkops.toml``: what a project says once instead of with every command.

It is looked for in the current folder and those above it. Paths in it are relative to its own folder.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from cuzkops.errors import UsageError
from cuzkops.paths import expanded
from cuzkops.toml import read_toml

if TYPE_CHECKING:
    from pathlib import Path

FILE_NAME = "cuzkops.toml"


@dataclass(frozen=True)
class Project:
    """The settings of a project; None where it says nothing.

    Args:
        target: Where to work.
        name: The daemon's name.
        remote_dir: Folder on the host.
        config: The daemon's configuration.
        builder: ``"docker"`` or ``"local"``.
        base_image: Base image of the Docker build.
        gpu_archs: GPU architectures of the Docker build.
        identity: Private key for SSH.
        file: The file that was read, or None.
    """

    target: str | None = None
    name: str | None = None
    remote_dir: str | None = None
    config: Path | None = None
    builder: str | None = None
    base_image: str | None = None
    gpu_archs: str | None = None
    identity: Path | None = None
    file: Path | None = None


_KEYS = tuple(field.name for field in fields(Project) if field.name != "file")
_PATHS = ("config", "identity")


def find_project(folder: Path) -> Project:
    """Read the nearest ``cuzkops.toml`` of a folder and those above it, or nothing where there is none.

    Raises:
        UsageError: It cannot be read, is not TOML, or has a key or value that does not belong; all are named.
    """
    for candidate in (folder, *folder.parents):
        file = candidate / FILE_NAME
        if file.is_file():
            return _read(file)
    return Project()


def _read(file: Path) -> Project:
    document = read_toml(file, "project")
    problems = [problem for key, value in document.items() if (problem := _problem(key, value))]
    if problems:
        raise UsageError(
            "project", f"{file}: {'; '.join(problems)}", f"the keys are {', '.join(_KEYS)}", {"problems": problems}
        )
    values: dict[str, Any] = {
        key: file.parent / expanded(value, f"{key} in {file}") if key in _PATHS else value
        for key, value in document.items()
    }
    return Project(file=file, **values)


def _problem(key: str, value: object) -> str:
    if key not in _KEYS:
        return f"there is no key {key}"
    if not isinstance(value, str) or not value:
        return f"{key} is {value!r}, not a text"
    if key == "builder" and value not in ("docker", "local"):
        return f"builder is {value!r}, not docker or local"
    return ""
