"""The runtime with its own interpreter: PyInstaller packs CPython and its library, the wheels lie beside it.

PyInstaller sees only ``boot.py`` and the standard library. The wheels are copied as they were installed, because
they then need no recipe of their own, and so that our code can use any module of theirs without a new runtime.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import sys
import sysconfig
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.command import run_command
from cuzkops.artifact.distributions import copy_distributions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from importlib.metadata import Distribution

# No daemon needs them: teaching, windows and their libraries, installers, tests, a terminal, old databases.
_LEFT_OUT = {
    "_crypt", "_curses", "_curses_panel", "_dbm", "_gdbm", "_tkinter", "antigravity", "crypt", "curses", "distutils",
    "ensurepip", "idlelib", "lib2to3", "nis", "ossaudiodev", "pydoc_data", "readline", "rlcompleter", "spwd", "test",
    "this", "tkinter", "turtle", "turtledemo", "venv",
}  # fmt: skip
_NOT_MODULES = {"__pycache__", "test", "tests"}
# The host's own, always: the kernel of what "glibc floor" means.
_GLIBC = {
    "ld-linux-aarch64.so.1", "ld-linux-x86-64.so.2", "libanl.so.1", "libc.so.6", "libdl.so.2", "libm.so.6",
    "libmvec.so.1", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libutil.so.1",
}  # fmt: skip


def why_not() -> str:
    """Why this interpreter cannot be bundled, or an empty string if it can."""
    if importlib.util.find_spec("PyInstaller") is None:
        return "PyInstaller is not installed (the extra `build`)"
    if shutil.which("objcopy") is None:
        return "objcopy is not on PATH (binutils)"
    from PyInstaller.depend.bindepend import PythonLibraryNotFoundError, get_python_library_path  # noqa: PLC0415 - slow

    try:
        get_python_library_path()
    except PythonLibraryNotFoundError:
        return f"{sys.executable} has no shared libpython"
    return ""


def build(
    folder: Path,
    work: Path,
    distributions: Iterable[Distribution],
    progress: Callable[[str], None],
    deadline: float,
) -> None:
    """Make ``folder/runtime``: the executable ``prover``, ``_internal``, and ``site-packages``.

    Args:
        folder: Existing folder of the layer.
        work: Existing folder for PyInstaller's own files.
        distributions: The wheels.
        progress: Called with PyInstaller's lines.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Raises:
        OpsError: PyInstaller failed.
        TimeoutExpired: The deadline passed.
    """
    runtime = folder / "runtime"
    site_packages = work / "site-packages"
    copy_distributions(distributions, site_packages, deadline)
    with resources.as_file(resources.files("cuzkops.artifact") / "boot.py") as boot:
        argv: list[str | Path] = [
            *(sys.executable, "-m", "PyInstaller", "--noconfirm", "--onedir", "--name", "prover"),
            *("--distpath", work / "dist", "--workpath", work / "build", "--specpath", work),
            *(f"--hidden-import={name}" for name in stdlib_modules()),
            *(f"--exclude-module={name}" for name in sorted(_LEFT_OUT | {"cuzkops", "kernels", "prover"})),
            *(f"--add-binary={library}:." for library in foreign_libraries(site_packages, deadline)),
            boot,
        ]
        # two settings make PyInstaller's archives the same each time, one keeps its cache to this build, and the last
        # silences it from its first line on, which --log-level does not
        fixed = {"PYTHONHASHSEED": "1", "SOURCE_DATE_EPOCH": "1700000000", "PYINSTALLER_CONFIG_DIR": str(work)}
        fixed["PYI_LOG_LEVEL"] = "WARN"
        run_command(argv, title="PyInstaller", progress=progress, deadline=deadline, env=os.environ | fixed).check()
    # a layer holds no symbolic links: PyInstaller makes some for libraries with two names
    shutil.copytree(work / "dist" / "prover", runtime, symlinks=False)
    site_packages.rename(runtime / "site-packages")


def stdlib_modules() -> list[str]:
    """Every module of the standard library that a daemon might import, packages with all their submodules."""
    folders = [sysconfig.get_path("stdlib"), f"{sysconfig.get_path('platstdlib')}/lib-dynload"]
    names: list[str] = []
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        spec = importlib.machinery.PathFinder.find_spec(name, folders)
        if spec is not None:  # built in, or of another platform
            names.append(name)
            for location in spec.submodule_search_locations or []:
                names += _submodules(name, Path(location))
    return names


def _submodules(package: str, folder: Path) -> Iterator[str]:
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            if entry.name not in _NOT_MODULES and (entry / "__init__.py").exists():
                yield f"{package}.{entry.name}"
                yield from _submodules(f"{package}.{entry.name}", entry)
        elif entry.suffix == ".py" and entry.stem not in ("__init__", "__main__"):
            yield f"{package}.{entry.stem}"


def foreign_libraries(site_packages: Path, deadline: float) -> list[Path]:
    """Shared libraries that the wheels need and neither carry nor find in every glibc, such as libstdc++.

    Raises:
        TimeoutExpired: The deadline, on the clock of ``time.monotonic`` in seconds, passed.
    """
    found: set[Path] = set()
    for module in sorted(site_packages.rglob("*.so*")):
        title = f"ldd {module.name}"
        for line in run_command(["ldd", module], title=title, progress=lambda _: None, deadline=deadline).lines:
            name, arrow, rest = line.strip().partition(" => ")
            path = Path(rest.rpartition(" (")[0])
            if arrow and name not in _GLIBC and path.is_absolute() and not path.is_relative_to(site_packages):
                found.add(path)
    return sorted(found)
