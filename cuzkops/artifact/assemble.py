"""Put an artifact together from a source tree and this interpreter's environment."""

from __future__ import annotations

import platform
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cuzkops.artifact import source
from cuzkops.artifact.command import run_command
from cuzkops.artifact.elf import glibc_floor
from cuzkops.artifact.layers import build_id, unpack_layers, write_layer
from cuzkops.artifact.runtime import choose, gpu_layer, runtime_layer
from cuzkops.artifact.runtime_host_python import host_python
from cuzkops.records import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable

MANIFEST = "manifest.json"
FIRST_START_S = 60.0
"""How long the first start of a new artifact may take; warm it takes a fraction of a second."""
# numpy refuses to start on a processor without its baseline; names as in /proc/cpuinfo. Level 2 of the x86-64 psABI.
_X86_64_V2 = ["cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"]


@dataclass(frozen=True)
class Recipe:
    """What to put together.

    Args:
        project: The source tree.
        out: Empty folder that receives the artifact.
        runtime: Which runtime; ``"auto"`` bundles the interpreter where that is possible.
        builder: Name for people, recorded in the manifest.
        native: A library that was compiled before, or None to compile it.
        deadline: On the clock of ``time.monotonic``, in seconds.
    """

    project: Path
    out: Path
    runtime: Literal["auto", "bundled", "host-python"] = "auto"
    builder: str = "local"
    native: Path | None = None
    deadline: float = float("inf")


def assemble(recipe: Recipe, progress: Callable[[str], None]) -> Manifest:
    """Make the layers and the manifest, and start the result once.

    Raises:
        UsageError: This environment or source tree cannot make it.
        TimeoutExpired: The deadline passed.
        OpsError: A part does not build, or the result does not start.
    """
    revision = source.revision(recipe.project)
    kind = choose(recipe.runtime, progress)
    with tempfile.TemporaryDirectory(prefix="cuzkops-artifact-") as temporary:
        native, app, release = (Path(temporary) / name for name in ("native", "app", "release"))
        for made in (native, app, release):
            made.mkdir()
        wheels = [runtime_layer(kind, recipe.project, progress, recipe.deadline)]
        progress("native: compiling" if recipe.native is None else "native: taken as given")
        if source.build_native(recipe.project, native, recipe.native, progress, recipe.deadline):
            wheels.append(gpu_layer(recipe.project, progress, recipe.deadline))
        source.copy_app(recipe.project, app)
        for cached in wheels:
            shutil.copyfile(cached.archive, recipe.out / cached.archive.name)
        layers = [
            *(cached.layer for cached in wheels),
            write_layer(native, "native", recipe.out),
            write_layer(app, "app", recipe.out),
        ]
        unpack_layers([recipe.out / f"{layer.sha256}.tar.gz" for layer in layers], release)
        progress(f"starts: {_first_start(release, recipe.deadline)}")
        floor = max(*(cached.glibc for cached in wheels), glibc_floor(native) or (0, 0))
    manifest = Manifest(
        build_id=build_id(layers),
        git=revision.git,
        dirty=revision.dirty,
        version=revision.version,
        target=f"{platform.machine()}-linux-gnu",
        glibc_floor=f"{floor[0]}.{floor[1]}",
        cpu_flags=_X86_64_V2 if platform.machine() == "x86_64" else [],
        runtime=kind,
        host_python=host_python() if kind == "host-python" else None,
        layers=layers,
        builder=recipe.builder,
        built_unix_ns=time.time_ns(),
    )
    (recipe.out / MANIFEST).write_text(manifest.model_dump_json(by_alias=True, indent=2) + "\n")
    progress(f"artifact {manifest.build_id}: {kind} runtime, glibc {manifest.glibc_floor} or newer")
    return manifest


def _first_start(release: Path, deadline: float) -> str:
    lines: list[str] = []
    ended = run_command(
        [release / "prover", "--version"],
        title="the first start of the artifact (prover --version)",
        progress=lines.append,
        deadline=min(deadline, time.monotonic() + FIRST_START_S),
    )
    ended.check()
    return " ".join(lines)
