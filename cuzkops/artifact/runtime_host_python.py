"""The runtime without an interpreter: wheels for the host's own Python of the same minor version."""

from __future__ import annotations

import os
import shutil
import sys
from importlib import resources
from typing import TYPE_CHECKING

from cuzkops.artifact.distributions import copy_distributions
from cuzkops.records import HostPython

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import Distribution
    from pathlib import Path


def host_python() -> HostPython:
    """The interpreter that such a release asks for: the minor version of this one, and where its base lies.

    The base, because a virtual environment is likely to be gone by the time that the release starts.
    """
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return HostPython(version=f"{sys.version_info.major}.{sys.version_info.minor}", path=base)


def build(folder: Path, distributions: Iterable[Distribution], deadline: float) -> None:
    """Make ``folder/runtime``: ``site-packages``, ``boot.py``, and what ``launcher.sh`` reads to find a Python.

    Args:
        folder: Existing folder of the layer.
        distributions: The wheels.
        deadline: On the clock of ``time.monotonic``, in seconds.
    """
    runtime = folder / "runtime"
    copy_distributions(distributions, runtime / "site-packages", deadline)
    with resources.as_file(resources.files("cuzkops.artifact") / "boot.py") as boot:
        shutil.copyfile(boot, runtime / "boot.py")
    wanted = host_python()
    (runtime / "host-python").write_text(f"{wanted.version}\n{wanted.path}\n")
