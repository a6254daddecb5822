"""The layers of wheels: the runtime, of the kind that this interpreter can make, and CuPy for a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cuzkops.artifact import runtime_bundled, runtime_host_python
from cuzkops.artifact.distributions import closure, copy_distributions, wheels_of
from cuzkops.artifact.layer_cache import cached_layer
from cuzkops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuzkops.artifact.layer_cache import CachedLayer

RuntimeKind = Literal["bundled", "host-python"]


def choose(wanted: Literal["auto", "bundled", "host-python"], progress: Callable[[str], None]) -> RuntimeKind:
    """Decide which kind of runtime to make.

    Raises:
        UsageError: ``"bundled"`` is asked for and cannot be made by this interpreter.
    """
    if wanted == "host-python":
        return wanted
    reason = runtime_bundled.why_not()
    if not reason:
        return "bundled"
    if wanted == "bundled":
        raise UsageError(
            "no-bundle", f"the interpreter cannot be bundled: {reason}", "build with --runtime host-python"
        )
    progress(f"runtime: reuses the host's Python, because {reason}")
    return "host-python"


def runtime_layer(kind: RuntimeKind, project: Path, progress: Callable[[str], None], deadline: float) -> CachedLayer:
    """Take the runtime layer from the cache, or make it.

    Args:
        kind: Which one.
        project: Source tree whose pyproject.toml says what the daemon needs.
        progress: Called with lines for people.
        deadline: On the clock of ``time.monotonic``, in seconds.

    Raises:
        UsageError: What the daemon needs is not installed here.
    """
    wheels = wheels_of(project, "prover")

    def build(folder: Path, work: Path) -> None:
        if kind == "bundled":
            runtime_bundled.build(folder, work, wheels, progress, deadline)
        else:
            runtime_host_python.build(folder, wheels, deadline)

    tools = closure(["pyinstaller"]) if kind == "bundled" else []
    return cached_layer("runtime", kind, [*wheels, *tools], build, progress)


def gpu_layer(project: Path, progress: Callable[[str], None], deadline: float) -> CachedLayer:
    """Take the layer of what the cuda backend needs beside the runtime from the cache, or make it.

    It is CuPy without the libraries of CUDA: the backend loads what was compiled before, so that the host's driver is
    all that it needs.

    Raises:
        UsageError: CuPy is not installed here.
    """
    of_the_runtime = {found.name for found in wheels_of(project, "prover")}
    wheels = [found for found in wheels_of(project, "gpu") if found.name not in of_the_runtime]

    def build(folder: Path, _work: Path) -> None:
        copy_distributions(wheels, folder / "gpu", deadline)

    return cached_layer("gpu", "CuPy", wheels, build, progress)
