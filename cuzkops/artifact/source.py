"""What comes from the source tree: our Python, the native library, and which revision they are."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.command import run_command
from cuzkops.errors import OpsError, TimeoutExpired, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

PACKAGES = ("kernels", "prover")
LIBRARY = "libcuzkops_host.so"
GIT_TIMEOUT_S = 60.0
"""On a cold disk, git looks at every file of the checkout."""
# kernels: sources and generators of what the native layer holds
_LEFT_OUT = {"__pycache__", "_native", "gen", "src", "tests"}
_LOCKS = ("requirements-prover.lock", "requirements-gpu.lock", "requirements-nvcc.lock")
_ENTERS_THE_ARTIFACT = [*PACKAGES, "cuzkops/artifact", "Dockerfile", "pyproject.toml", *_LOCKS]


@dataclass(frozen=True)
class Revision:
    """Which source this is.

    Args:
        version: Version in pyproject.toml.
        git: Commit, or an empty string outside a checkout.
        dirty: Whether anything that enters the artifact differs from that commit.
    """

    version: str
    git: str
    dirty: bool


def revision(project: Path) -> Revision:
    """Ask git, or take GIT_REVISION and GIT_DIRTY, by which a build without a checkout is told.

    Raises:
        TimeoutExpired: git does not answer.
    """
    version = str(tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"])
    if "GIT_REVISION" in os.environ:
        return Revision(version, os.environ["GIT_REVISION"], os.environ.get("GIT_DIRTY") == "true")
    if not (project / ".git").exists():
        return Revision(version, "", dirty=False)
    commit = git(project, "rev-parse", "HEAD")
    return Revision(
        version, commit, bool(commit and git(project, "status", "--porcelain", "--", *_ENTERS_THE_ARTIFACT))
    )


def git(project: Path, *words: str) -> str:
    """What a git command prints; an empty string where there is no git or no checkout.

    Raises:
        TimeoutExpired: git does not answer.
    """
    try:
        ended = subprocess.run(
            ["git", "-C", project, *words], capture_output=True, text=True, check=False, timeout=GIT_TIMEOUT_S
        )
    except FileNotFoundError:
        return ""
    except subprocess.TimeoutExpired as error:
        message = f"git {words[0]} did not end within {GIT_TIMEOUT_S:g} s in {project}"
        hint = "see what it waits for, or set GIT_REVISION and GIT_DIRTY"
        raise TimeoutExpired("git-timeout", message, hint) from error
    return ended.stdout.strip() if ended.returncode == 0 else ""


def copy_app(project: Path, folder: Path) -> None:
    """Make the app layer: ``prover``, which starts a release, and our packages as plain files in ``app``.

    Raises:
        UsageError: ``project`` has no such packages.
    """
    for package in PACKAGES:
        if not (project / package / "__init__.py").exists():
            raise UsageError("no-project", f"{project} is not a source tree of this project: it has no {package}/")
        shutil.copytree(project / package, folder / "app" / package, ignore=_ignored)
    with resources.as_file(resources.files("cuzkops.artifact") / "launcher.sh") as launcher:
        shutil.copyfile(launcher, folder / "prover")
    (folder / "prover").chmod(0o755)


def _ignored(_folder: str, names: list[str]) -> set[str]:
    return {name for name in names if name in _LEFT_OUT or name.startswith(".") or name.endswith((".pyc", ".so"))}


def build_native(
    project: Path, folder: Path, ready: Path | None, progress: Callable[[str], None], deadline: float
) -> bool:
    """Make the native layer: the host library in ``native``, and the kernels of a device where they were compiled.

    Args:
        project: The source tree; the library is compiled in it, which does nothing where it is current.
        folder: Existing folder of the layer.
        ready: A library that was compiled before, or None to compile it. The fatbins beside such a library are taken,
            too: they were compiled with it.
        progress: Called with the compiler's lines.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Returns:
        Whether there are kernels of a device.

    Raises:
        OpsError: It does not compile, or no library came of it.
    """
    fatbins = sorted(ready.parent.glob("cuzkops_*.fatbin")) if ready else []
    if ready is None:
        argv = [sys.executable, "-m", "kernels.build"]
        ended = run_command(argv, title="the native build", progress=progress, deadline=deadline, cwd=project).check()
        ready = Path(ended.lines[-1]) if ended.lines else project
    if not ready.is_file():
        raise OpsError("no-library", f"the native build left no library: {ready} is not a file")
    (folder / "native").mkdir()
    shutil.copy(ready, folder / "native" / LIBRARY)
    for fatbin in fatbins:
        shutil.copy(fatbin, folder / "native")
    return bool(fatbins)
