"""Layers that are made once and then taken from the tool's cache: those of wheels, by everything that decides them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.elf import glibc_floor
from cuzkops.artifact.layers import file_sha256, write_layer
from cuzkops.errors import OpsError
from cuzkops.records import Layer
from prover.protocol import Record

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import Distribution

    from cuzkops.records import LayerName

KEPT = 4
"""How many entries a cache keeps, newest first."""
_DEAD_S = 24 * 3600.0
"""What is being made for so long was left by a build that was killed."""


class _Facts(Record):
    """``facts.json`` beside an archive."""

    layer: Layer
    glibc: tuple[int, int]


@dataclass(frozen=True)
class CachedLayer:
    """A layer in the cache.

    Args:
        layer: Its record.
        archive: Where its archive lies.
        glibc: The highest glibc version that it asks for.
    """

    layer: Layer
    archive: Path
    glibc: tuple[int, int]


def cached_layer(
    name: LayerName,
    title: str,
    wheels: list[Distribution],
    build: Callable[[Path, Path], None],
    progress: Callable[[str], None],
) -> CachedLayer:
    """Take a layer of wheels from the cache, or make it.

    Args:
        name: Which layer.
        title: Its kind, for people and for the key.
        wheels: What it is made of.
        build: Called where it is not in the cache, with the folder of the layer and one for other files.
        progress: Called with lines for people.

    Raises:
        OpsError: What was just written cannot be read again.
    """
    cache = cache_folder(name) / _key(title, wheels)
    found = _load(cache, name)
    if found is not None:
        progress(f"{name}: {title}, from the cache")
        os.utime(cache)
        return found
    progress(f"{name}: {title}, {len(wheels)} wheels for Python {platform.python_version()}")
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent, prefix=".making-") as temporary:
        work, folder, ready = (Path(temporary) / part for part in ("work", "layer", "ready"))
        for made in (work, folder, ready):
            made.mkdir()
        build(folder, work)
        layer = write_layer(folder, name, ready)
        facts = _Facts(layer=layer, glibc=glibc_floor(folder) or (0, 0))
        (ready / "facts.json").write_text(facts.model_dump_json(by_alias=True))
        _put(ready, cache, name)
    prune(cache.parent)
    made_layer = _load(cache, name)
    if made_layer is None:
        raise OpsError("cache", f"the layer {name} that was just written to {cache} is damaged")
    return made_layer


def cache_folder(kind: str) -> Path:
    """Where the tool keeps what it can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzkops" / kind


def _key(title: str, wheels: list[Distribution]) -> str:
    """Everything that decides the layer's content: this interpreter, the wheels, and the code that packs them."""
    interpreter = Path(sys.executable).resolve()
    packer = [f"{path.name} {file_sha256(path)}" for path in sorted(Path(__file__).parent.iterdir()) if path.is_file()]
    facts = [
        title,
        sys.version,
        str(interpreter),
        str(interpreter.stat().st_mtime_ns),
        *platform.libc_ver(),
        *(f"{wheel.name} {wheel.version}" for wheel in wheels),
        *packer,
    ]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def _load(cache: Path, name: LayerName) -> CachedLayer | None:
    try:
        facts = _Facts.model_validate_json((cache / "facts.json").read_bytes())
        layer = facts.layer
        archive = cache / f"{layer.sha256}.tar.gz"
        whole = (layer.name, layer.n_bytes) == (name, archive.stat().st_size) and file_sha256(archive) == layer.sha256
    except (OSError, ValueError):
        return None
    return CachedLayer(layer, archive, facts.glibc) if whole else None


def _put(ready: Path, cache: Path, name: LayerName) -> None:
    """Move a new entry to its place: what lies there gives way if it is damaged."""
    try:
        ready.rename(cache)
    except OSError:
        if _load(cache, name) is None:  # a sound one is of a build that was faster, and may be in use
            with contextlib.suppress(OSError):  # another build replaces it at this moment
                cache.rename(ready.parent / "damaged")
                ready.rename(cache)


def prune(folder: Path) -> None:
    """Remove all but the ``KEPT`` entries of a cache that were used last, and what killed builds left."""
    used: dict[Path, float] = {}
    for entry in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process removed it just now
            used[entry] = entry.stat().st_mtime
    entries = sorted((entry for entry in used if not entry.name.startswith(".")), key=used.__getitem__, reverse=True)
    dead = [entry for entry in used if entry.name.startswith(".making-") and used[entry] < time.time() - _DEAD_S]
    for entry in [*entries[KEPT:], *dead]:
        shutil.rmtree(entry, ignore_errors=True)
