"""Deterministic archives: the same files give the same digest, whoever builds them and when."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.artifact.listing import why_no_name
from cuzkops.errors import OpsError
from cuzkops.records import Layer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cuzkops.records import LayerName

# 1980-01-01: some tars warn about older times, and zip-minded tools refuse them
_MTIME_UNIX_S = 315_532_800


def write_layer(folder: Path, name: LayerName, out: Path) -> Layer:
    """Archive everything in ``folder`` as ``<sha256>.tar.gz`` in ``out``.

    Names are sorted; owner, times and modes are fixed (a file is 0755 if its owner may execute it, else 0644), so
    that the digest depends on names, contents and that one bit alone.

    Args:
        folder: What becomes the layer; its entries are the top-level names of the release.
        name: Which layer this is.
        out: Existing folder that receives the archive.

    Raises:
        OpsError: Something in ``folder`` is neither a regular file nor a folder, or has a name that not every host
            lists as it is.
    """
    with tempfile.NamedTemporaryFile(dir=out, prefix=".layer-", delete=False) as raw:
        partial = Path(raw.name)
        try:
            # without a name and a time in its header, gzip adds nothing of its own
            with (
                gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
                tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
            ):
                for path in sorted(folder.rglob("*"), key=lambda found: found.relative_to(folder).as_posix()):
                    _add(archive, path, path.relative_to(folder).as_posix())
            raw.flush()
            partial.chmod(0o644)
            digest = file_sha256(partial)
            final = partial.rename(out / f"{digest}.tar.gz")
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    return Layer(name=name, sha256=digest, n_bytes=final.stat().st_size)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.mtime = _MTIME_UNIX_S
    if path.is_symlink() or not (path.is_file() or path.is_dir()):
        # a release is made of hard links: a symbolic link could point out of it
        raise OpsError("layer-entry", f"{path} is neither a regular file nor a folder: it cannot be in a layer")
    if reason := why_no_name(name):
        raise OpsError("layer-entry", f"{path} cannot be in a layer: {reason}")
    if path.is_dir():
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
        return
    found = path.stat()
    entry.mode = 0o755 if found.st_mode & 0o100 else 0o644
    entry.size = found.st_size
    with path.open("rb") as content:
        archive.addfile(entry, content)


def file_sha256(path: Path) -> str:
    """Digest of a file, in hex."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def build_id(layers: Iterable[Layer]) -> str:
    """Name an artifact by its content: 16 hex digits over the names and digests of its layers."""
    text = "".join(f"{layer.name} {layer.sha256}\n" for layer in sorted(layers, key=lambda layer: layer.name))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def unpack_layers(archives: Iterable[Path], release: Path) -> None:
    """Make a release of layers, as a host does.

    Args:
        archives: The layers' archives, which this project wrote.
        release: Existing empty folder.

    Raises:
        OpsError: Two layers share a top-level name: their union would depend on the order.
    """
    for path in archives:
        before = {entry.name for entry in release.iterdir()}
        with tarfile.open(path) as archive:
            # the filter came with 3.11.4; what we unpack here we wrote ourselves
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            shared = before & {member.name.split("/")[0] for member in archive.getmembers()}
            if shared:
                raise OpsError(
                    "layers-overlap", f"{path.name} and a layer before it both hold {', '.join(sorted(shared))}"
                )
            archive.extractall(release)  # noqa: S202 - see above
