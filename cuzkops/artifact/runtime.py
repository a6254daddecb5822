"""The runtime layer: which kind this interpreter can make, made once and then taken from the tool's cache."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cuzkops.artifact import runtime_bundled, runtime_host_python
from cuzkops.artifact.distributions import closure, project_requirements
from cuzkops.artifact.elf import glibc_floor
from cuzkops.artifact.layers import file_sha256, write_layer
from cuzkops.errors import OpsError, UsageError
from cuzkops.records import Layer

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import Distribution

RuntimeKind = Literal["bundled", "host-python"]
KEPT = 4
"""How many runtime layers the cache keeps, newest first."""


@dataclass(frozen=True)
class RuntimeLayer:
    """A runtime layer in the cache.

    Args:
        layer: Its record.
        archive: Where its archive lies.
        glibc: The highest glibc version that it asks for.
    """

    layer: Layer
    archive: Path
    glibc: tuple[int, int]


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


def runtime_layer(kind: RuntimeKind, project: Path, progress: Callable[[str], None], deadline: float) -> RuntimeLayer:
    """Take the runtime layer from the cache, or make it.

    Args:
        kind: Which one.
        project: Source tree whose pyproject.toml says what the daemon needs.
        progress: Called with lines for people.
        deadline: On the clock of ``time.monotonic``, in seconds.
    """
    distributions = closure(project_requirements(project))
    cache = cache_folder("runtime") / _key(kind, distributions)
    found = _load(cache)
    if found is not None:
        progress(f"runtime: {kind}, from the cache")
        os.utime(cache)
        return found
    progress(f"runtime: {kind}, {len(distributions)} wheels for Python {platform.python_version()}")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".making-") as temporary:
        work, folder, ready = (Path(temporary) / name for name in ("work", "layer", "ready"))
        for made in (work, folder, ready):
            made.mkdir()
        if kind == "bundled":
            runtime_bundled.build(folder, work, distributions, progress, deadline)
        else:
            runtime_host_python.build(folder, distributions, deadline)
        layer = write_layer(folder, "runtime", ready)
        facts = {"layer": layer.model_dump(by_alias=True), "glibc": glibc_floor(folder) or (0, 0)}
        (ready / "facts.json").write_text(json.dumps(facts))
        try:
            ready.rename(cache)
        except OSError:
            if _load(cache) is None:  # damaged; a sound one is of another build that was faster, and may be in use
                shutil.rmtree(cache, ignore_errors=True)
                ready.rename(cache)
    prune(cache.parent)
    made_layer = _load(cache)
    if made_layer is None:
        raise OpsError("cache", f"the runtime layer that was just written to {cache} is damaged")
    return made_layer


def cache_folder(kind: str) -> Path:
    """Where the tool keeps what it can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzkops" / kind


def _key(kind: RuntimeKind, distributions: list[Distribution]) -> str:
    """Everything that decides the layer's content: this interpreter, the wheels, and the code that packs them."""
    interpreter = Path(sys.executable).resolve()
    packer = [f"{path.name} {file_sha256(path)}" for path in sorted(Path(__file__).parent.iterdir()) if path.is_file()]
    wheels = [f"{distribution.name} {distribution.version}" for distribution in distributions]
    if kind == "bundled":
        wheels += [f"{found.name} {found.version}" for found in closure(["pyinstaller"])]
    facts = [
        kind,
        sys.version,
        str(interpreter),
        str(interpreter.stat().st_mtime_ns),
        *platform.libc_ver(),
        *wheels,
        *packer,
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _load(cache: Path) -> RuntimeLayer | None:
    try:
        facts = json.loads((cache / "facts.json").read_text())
        layer = Layer.model_validate(facts["layer"])
        archive = cache / f"{layer.sha256}.tar.gz"
        whole = file_sha256(archive) == layer.sha256
    except (OSError, ValueError, KeyError):
        return None
    major, minor = facts["glibc"]
    return RuntimeLayer(layer, archive, (major, minor)) if whole else None


def prune(folder: Path) -> None:
    """Remove all but the ``KEPT`` entries of a cache that were used last."""
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(".")]
    for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)[KEPT:]:
        shutil.rmtree(entry, ignore_errors=True)
