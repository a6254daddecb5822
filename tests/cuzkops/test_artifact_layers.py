"""The same content gives the same digest, and a release is the plain union of its layers."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

from cuzkops.artifact.layers import build_id, file_sha256, unpack_layers, write_layer
from cuzkops.errors import OpsError
from cuzkops.records import Layer

if TYPE_CHECKING:
    from pathlib import Path

FILES = {"app/b.py": b"two", "app/a.py": b"one", "app/empty": b"", "prover": b"#!/bin/sh\n", "app-x/c": b"\0" * 70_000}


def make_tree(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(FILES[name])
    (folder / "prover").chmod(0o755)
    return folder


def write(folder: Path, out: Path) -> Layer:
    out.mkdir(exist_ok=True)
    return write_layer(folder, "app", out)


def test_digest_does_not_depend_on_order_times_owner_or_umask(tmp_path: Path) -> None:
    first = make_tree(tmp_path / "first", list(FILES))
    second = make_tree(tmp_path / "second", list(reversed(FILES)))
    for number, path in enumerate(second.rglob("*")):
        os.utime(path, (number * 1000, number * 1000))
        path.chmod(0o700 if path.is_dir() or path.name == "prover" else 0o600)
    assert write(first, tmp_path / "out1") == write(second, tmp_path / "out2")


@pytest.mark.parametrize("change", ["content", "name", "executable", "added"])
def test_digest_depends_on_everything_that_matters(tmp_path: Path, change: str) -> None:
    tree = make_tree(tmp_path / "tree", list(FILES))
    before = write(tree, tmp_path / "before")
    match change:
        case "content":
            (tree / "app/a.py").write_bytes(b"onf")
        case "name":
            (tree / "app/a.py").rename(tree / "app/c.py")
        case "executable":
            (tree / "app/a.py").chmod(0o755)
        case _:
            (tree / "app/folder").mkdir()
    assert write(tree, tmp_path / "after").sha256 != before.sha256


def test_archive_is_named_by_its_digest_and_holds_no_time_or_name(tmp_path: Path) -> None:
    out = tmp_path / "out"
    layer = write(make_tree(tmp_path / "tree", list(FILES)), out)
    archive = out / f"{layer.sha256}.tar.gz"
    assert [entry.name for entry in out.iterdir()] == [archive.name]
    assert file_sha256(archive) == layer.sha256
    assert archive.stat().st_size == layer.n_bytes
    raw = archive.read_bytes()
    assert raw[3] == 0  # flags: no file name, no comment
    assert raw[4:8] == bytes(4)  # time
    with tarfile.open(archive) as opened:
        members = opened.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members} == {(0, 0, "", "")}
    assert len({member.mtime for member in members}) == 1
    assert {member.name: member.mode for member in members if member.isfile()}["prover"] == 0o755


@pytest.mark.parametrize("kind", ["link", "broken link", "pipe"])
def test_what_cannot_be_hard_linked_is_refused_and_leaves_nothing(tmp_path: Path, kind: str) -> None:
    tree = make_tree(tmp_path / "tree", list(FILES))
    odd = tree / "app" / "odd"
    match kind:
        case "link":
            odd.symlink_to("a.py")
        case "broken link":
            odd.symlink_to("nowhere")
        case _:
            os.mkfifo(odd)
    with pytest.raises(OpsError, match="odd is neither a regular file nor a folder"):
        write(tree, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("name", ["mark*", "back\\slash", "line\nend", "ä", "end:"])
def test_a_name_that_not_every_host_lists_as_it_is_is_refused(tmp_path: Path, name: str) -> None:
    tree = make_tree(tmp_path / "tree", list(FILES))
    (tree / "app" / name).write_bytes(b"")
    with pytest.raises(OpsError, match="cannot be in a layer: it holds a character that not every host lists"):
        write(tree, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_union_of_layers_is_what_went_in(tmp_path: Path) -> None:
    out, release = tmp_path / "out", tmp_path / "release"
    release.mkdir()
    one = make_tree(tmp_path / "one", ["app/a.py", "prover"])
    two = tmp_path / "two"
    (two / "native").mkdir(parents=True)
    (two / "native" / "x.so").write_bytes(b"so")
    unpack_layers([out / f"{write(tree, out).sha256}.tar.gz" for tree in (one, two)], release)
    assert {str(path.relative_to(release)) for path in release.rglob("*") if path.is_file()} == {
        "app/a.py",
        "prover",
        "native/x.so",
    }
    assert os.access(release / "prover", os.X_OK)


def test_layers_that_share_a_top_level_name_are_refused(tmp_path: Path) -> None:
    out, release = tmp_path / "out", tmp_path / "release"
    release.mkdir()
    one = make_tree(tmp_path / "one", ["app/a.py", "prover"])
    two = make_tree(tmp_path / "two", ["app/b.py", "prover"])
    shutil.move(two / "prover", two / "other")
    with pytest.raises(OpsError, match="both hold app"):
        unpack_layers([out / f"{write(tree, out).sha256}.tar.gz" for tree in (one, two)], release)


def test_unpacked_by_the_tar_of_this_machine(tmp_path: Path) -> None:
    layer = write(make_tree(tmp_path / "tree", list(FILES)), tmp_path / "out")
    content = gzip.decompress((tmp_path / "out" / f"{layer.sha256}.tar.gz").read_bytes())
    assert content[257:262] == b"ustar"  # understood by every tar, busybox included


def test_build_id_depends_on_the_layers_and_not_on_their_order() -> None:
    layers = [Layer(name=name, sha256=digit * 64, n_bytes=1) for name, digit in (("app", "1"), ("native", "2"))]
    assert build_id(layers) == build_id(reversed(layers))
    assert len(build_id(layers)) == 16
    swapped = [Layer(name=name, sha256=digit * 64, n_bytes=1) for name, digit in (("app", "2"), ("native", "1"))]
    assert build_id(swapped) != build_id(layers)
