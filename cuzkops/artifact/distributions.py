"""The wheels of the daemon: found among what this environment has installed, and copied as plain files."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import sys
import tomllib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cuzkops.artifact.command import run_command
from cuzkops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

# Of no use at run time, and a good part of the bytes.
_UNUSED_SUFFIXES = {".pyc", ".pyi", ".a", ".c", ".h", ".pyx", ".pxd"}
_UNUSED_FOLDERS = {"__pycache__", "tests"}
# They differ from machine to machine while the wheel is the same.
_UNUSED_RECORDS = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_build.json", "uv_cache.json"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def project_requirements(project: Path, extra: str) -> list[str]:
    """The requirements that pyproject.toml lists for an extra, ``"prover"`` or ``"gpu"``, as written there.

    Raises:
        UsageError: There is no such extra, or no pyproject.toml.
    """
    try:
        table = tomllib.loads((project / "pyproject.toml").read_text())["project"]
        return [str(line) for line in table["optional-dependencies"][extra]]
    except (OSError, KeyError, tomllib.TOMLDecodeError) as error:
        raise UsageError(
            "no-project",
            f"{project} is not a source tree of this project: no extra {extra!r} in its pyproject.toml",
            "name the source tree, or run from a checkout",
        ) from error


def wheels_of(project: Path, extra: str) -> list[importlib.metadata.Distribution]:
    """Every installed distribution that an extra of pyproject.toml leads to: see ``closure``.

    Raises:
        UsageError: There is no such extra, or some are not installed; all are named.
    """
    return closure(project_requirements(project, extra), f"requirements-{extra}.lock")


def closure(requirements: Iterable[str], lock: str = "requirements.lock") -> list[importlib.metadata.Distribution]:
    """Every installed distribution that the requirements lead to, sorted by name.

    Markers are not evaluated: a requirement with one is followed where it is installed, and optional extras are not
    followed at all.

    Args:
        requirements: As pyproject.toml spells them.
        lock: The file that they can be installed from, for messages.

    Raises:
        UsageError: Some are not installed; all are named.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    missing: set[str] = set()
    todo = list(requirements)
    while todo:
        requirement, _, marker = todo.pop().partition(";")
        match = _NAME.match(requirement.strip())
        name = re.sub(r"[-_.]+", "-", match.group() if match else requirement).lower()
        if name in found or "extra ==" in marker:
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            if not marker:
                missing.add(name)
            continue
        todo += found[name].requires or []
    if missing:
        raise UsageError(
            "wheels-missing",
            f"{sys.executable} lacks what the daemon needs: {', '.join(sorted(missing))}",
            f"install it there: pip install --require-hashes -r {lock}",
        )
    return [found[name] for name in sorted(found)]


def copy_distributions(
    distributions: Iterable[importlib.metadata.Distribution], site_packages: Path, deadline: float
) -> None:
    """Copy the installed files of distributions and compile them, so that a start compiles nothing.

    The byte code is of the kind that is never checked against its source: it carries no time, and a release is not
    edited.

    Args:
        distributions: What to copy.
        site_packages: Folder to make; the interpreter of this process must be that of the release.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Raises:
        UsageError: A distribution has no list of its files.
        TimeoutExpired: The deadline passed.
    """
    site_packages.mkdir(parents=True)
    for distribution in distributions:
        if distribution.files is None:
            raise UsageError(
                "wheel-without-record",
                f"{distribution.name} {distribution.version} has no list of its files: it was not installed by pip",
                "build in a virtual environment",
            )
        for file in distribution.files:
            if _wanted(file):
                target = site_packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(Path(str(distribution.locate_file(file))), target)
    compile_tree(site_packages, deadline)


def _wanted(file: PurePosixPath) -> bool:
    return not (
        ".." in file.parts  # scripts and manual pages go elsewhere
        or file.suffix in _UNUSED_SUFFIXES
        or file.parts[0].endswith(".pth")
        or _UNUSED_FOLDERS & set(file.parts)
        or (file.parts[0].endswith(".dist-info") and file.name in _UNUSED_RECORDS)
    )


def compile_tree(folder: Path, deadline: float) -> None:
    """Write the byte code of every module below ``folder`` beside it.

    A process of its own does it, because what marshal writes depends on what else a process has loaded.

    Raises:
        TimeoutExpired: The deadline, on the clock of ``time.monotonic`` in seconds, passed.
    """
    words = ["-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(folder), str(folder)]
    # its status says whether every file compiled; wheels carry templates that never do
    argv = [sys.executable, "-I", *words]
    run_command(argv, title="the compilation of the wheels", progress=lambda _: None, deadline=deadline)
