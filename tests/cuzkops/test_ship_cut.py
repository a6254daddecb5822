"""What a cut, a signal or a hostile archive leaves: nothing but what the next run goes on with."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import wait_until

from cuzkops.artifact.layers import build_id, file_sha256, write_layer
from cuzkops.artifact.listing import list_archive
from cuzkops.errors import OpsError, UsageError
from cuzkops.records import Layer
from cuzkops.remote.releases import layer_script, release_script
from cuzkops.remote.transfer import resume_script
from cuzkops.steps.build import Artifact
from cuzkops.steps.ship import ShipRequest, ship

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout


@pytest.fixture
def request_(make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]) -> ShipRequest:
    return ShipRequest(make_artifact(), make_config())


def parts(layout: Layout) -> list[Path]:
    folders = (layout.layers, layout.circuits, layout.digests, layout.releases)
    return [
        path for folder in folders for path in Path(folder).iterdir() if ".part-" in path.name or ".tmp-" in path.name
    ]


class CutHost:
    """A host whose connection is lost while the file with these bytes travels."""

    def __init__(self, host: Host, after_bytes: int, label: str) -> None:
        self._host, self._after_bytes, self._label = host, after_bytes, label
        self.target, self.run = host.target, host.run
        self.sent_bytes: list[int] = []

    def resume(self, source: Path, part: str, *, progress: Callable[[int, int], None]) -> int:
        if self._label in part:
            with Path(part).open("ab") as file:  # what had arrived when the connection was lost
                file.write(source.read_bytes()[: self._after_bytes])
            raise ConnectionError
        self.sent_bytes.append(self._host.resume(source, part, progress=progress))
        return self.sent_bytes[-1]


def cut(host: Host, layout: Layout, request: ShipRequest, after_bytes: int) -> Path:
    with pytest.raises(ConnectionError):
        ship(CutHost(host, after_bytes, "/circuits/"), layout, request)  # type: ignore[arg-type] # two methods do
    [part] = parts(layout)
    assert part.stat().st_size == after_bytes
    return part


def test_a_cut_upload_goes_on_where_it_stopped(host: Host, layout: Layout, request_: ShipRequest, key: Path) -> None:
    cut(host, layout, request_, 20_000)
    seen: list[int] = []
    result = ship(host, layout, request_, lambda transfer: seen.append(transfer.done_bytes))
    assert result.sent == ("circuit mul",)
    assert result.bytes_sent == key.stat().st_size - 20_000
    assert seen[0] == 0
    assert min(seen[1:]) > 20_000
    assert (Path(layout.circuits) / file_sha256(key)).read_bytes() == key.read_bytes()
    assert parts(layout) == []


def test_a_whole_part_is_taken_without_a_byte(host: Host, layout: Layout, request_: ShipRequest, key: Path) -> None:
    cut(host, layout, request_, key.stat().st_size)
    assert ship(host, layout, request_).bytes_sent == 0
    assert parts(layout) == []


def test_a_part_of_something_else_is_noticed_by_its_digest(
    host: Host, layout: Layout, request_: ShipRequest, key: Path
) -> None:
    part = cut(host, layout, request_, 20_000)
    part.write_bytes(b"?" * 20_000)
    result = ship(host, layout, request_)
    assert result.bytes_sent == 2 * key.stat().st_size - 20_000
    assert (Path(layout.circuits) / file_sha256(key)).read_bytes() == key.read_bytes()
    part.write_bytes(b"?" * (key.stat().st_size + 1))  # longer than the whole
    (Path(layout.circuits) / file_sha256(key)).unlink()
    assert ship(host, layout, request_).bytes_sent == key.stat().st_size


def test_parts_that_nobody_wants_any_more_are_removed(host: Host, layout: Layout, request_: ShipRequest) -> None:
    ship(host, layout, request_)
    circuit = Path(layout.circuits) / request_.config.circuits["mul"].sha256
    left = [
        circuit.with_name(f"{circuit.name}.part-of-100"),  # of a key that is there
        circuit.with_name(f"{'ab' * 32}.part-of-100"),  # of one that this release does not name
        Path(layout.layers) / f"{'ab' * 32}.tmp-old-0123",
        Path(layout.digests) / f"{'ab' * 32}.files.tmp-0123",
        Path(layout.home) / "current.tmp-launch",
    ]
    for path in left:
        path.write_bytes(b"x")
        os.utime(path, ns=(0, 0))
    ship(host, layout, request_)
    assert [path for path in left if path.exists()] == []


def test_space_is_looked_for_before_anything_travels(
    host: Host, layout: Layout, request_: ShipRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = shutil.disk_usage(layout.remote_dir).free
    monkeypatch.setattr("cuzkops.steps.inventory._SPARE_BYTES", free - 1024)
    with pytest.raises(OpsError, match="the disk is too small") as refused:
        ship(host, layout, request_)
    assert refused.value.hint.startswith(
        f"{layout.remote_dir} holds next to nothing: remove something else on that disk; "
    )
    assert parts(layout) == []


SLOW = '#!/bin/sh\n: >"$MARK"\nexec sleep 600\n'


def end_group_in(script: Script, tool: str, folder: Path, shell: str) -> int:
    """Run a script whose ``tool`` never ends, and end its whole process group, as the guard of the envelope does."""
    mark, tools = folder / "mark", folder / "tools"
    tools.mkdir()
    (tools / tool).write_text(SLOW)
    (tools / tool).chmod(0o755)
    environment = {"PATH": f"{tools}:/usr/bin:/bin", "MARK": str(mark)}
    with subprocess.Popen(
        [shell, "-s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(f"(\n{script.text}\n)\n")
        process.stdin.close()
        wait_until(mark.exists)
        os.killpg(process.pid, signal.SIGTERM)
        process.stdout.read()  # to its end: the last of the group is gone
        return process.wait()


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/bash"])
def test_a_signal_for_the_group_leaves_no_half_layer_and_no_half_release(
    host: Host, layout: Layout, request_: ShipRequest, tmp_path: Path, shell: str
) -> None:
    if not Path(shell).exists():
        pytest.skip(f"no {shell} here")
    ship(host, layout, request_)
    layer = request_.artifact.manifest.layers[2]
    part = Path(layout.layers) / f"{layer.sha256}.tar.gz.part-of-{layer.n_bytes}"
    part.write_bytes(request_.artifact.layer_path(layer).read_bytes())
    unpack = layer_script(layout, "layer app", layer.sha256, str(part), files_sha256="", token="0123")  # noqa: S106 - a name
    (tmp_path / "unpack").mkdir()
    assert end_group_in(unpack, "tar", tmp_path / "unpack", shell) != 0
    assert parts(layout) == [part]  # the next run goes on with it
    part.unlink()
    join = release_script(layout, "some-release", [layer.sha256], manifest="{}", config=b"", token="0123")  # noqa: S106 - a name
    (tmp_path / "join").mkdir()
    assert end_group_in(join, "cp", tmp_path / "join", shell) != 0
    assert parts(layout) == []


def archive_of(folder: Path, *members: tuple[str, bytes]) -> Layer:
    """An archive that no builder of ours makes; returns its record."""
    folder.mkdir(exist_ok=True)
    raw = folder / "raw"
    with tarfile.open(raw, "w:gz") as opened:
        for name, kind in members:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "target" if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE) else ""
            entry.mode = 0o755
            opened.addfile(entry, io.BytesIO())
    digest = file_sha256(raw)
    raw.rename(folder / f"{digest}.tar.gz")
    return Layer(name="app", sha256=digest, n_bytes=(folder / f"{digest}.tar.gz").stat().st_size)


@pytest.mark.parametrize(
    ("member", "kind", "reason"),
    [
        ("/etc/passwd", tarfile.REGTYPE, "it is an absolute path"),
        ("../outside", tarfile.REGTYPE, "it leads out of the release"),
        ("app/../../outside", tarfile.REGTYPE, "it leads out of the release"),
        ("./app/x", tarfile.REGTYPE, "it is not a plain relative path"),
        ("app/link", tarfile.SYMTYPE, "it is neither a regular file nor a folder"),
        ("app/link", tarfile.LNKTYPE, "it is neither a regular file nor a folder"),
        ("app/pipe", tarfile.FIFOTYPE, "it is neither a regular file nor a folder"),
        ("app/back\\slash", tarfile.REGTYPE, "it holds a character that not every host lists as it is"),
        ("app/line\nend", tarfile.REGTYPE, "it holds a character that not every host lists as it is"),
        ("app/mark*", tarfile.REGTYPE, "it holds a character that not every host lists as it is"),
        ("prover", tarfile.REGTYPE, "it stands there twice"),
    ],
)
def test_a_member_that_may_not_be_unpacked_is_refused_before_anything_travels(
    host: Host, layout: Layout, request_: ShipRequest, *, member: str, kind: bytes, reason: str
) -> None:
    folder = request_.artifact.directory
    app = archive_of(folder, ("prover", tarfile.REGTYPE), (member, kind))
    layers = [*request_.artifact.manifest.layers[:2], app]
    manifest = request_.artifact.manifest.model_copy(update={"layers": layers, "build_id": build_id(layers)})
    with pytest.raises(UsageError) as refused:
        ship(host, layout, ShipRequest(Artifact(folder, manifest), request_.config))
    assert refused.value.message.endswith(f"holds what may not be unpacked: {member!r}: {reason}")
    assert list(Path(layout.layers).iterdir()) == []


def test_the_list_of_an_archive_is_that_of_its_folder(tmp_path: Path) -> None:
    for name in ("top", "a b/c/d.py", "a b/.hidden/x", "a b/run"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "tree" / "a b" / "run").chmod(0o755)
    (tmp_path / "tree" / "empty").mkdir()
    (tmp_path / "out").mkdir()
    layer = write_layer(tmp_path / "tree", "app", tmp_path / "out")
    lines = list_archive(tmp_path / "out" / f"{layer.sha256}.tar.gz").decode().splitlines()
    assert lines == sorted(lines)
    assert {line for line in lines if line[1] == " "} == {
        "d a b",
        "d a b/.hidden",
        "d a b/c",
        "d empty",
        "x a b/run",
    }
    assert f"{file_sha256(tmp_path / 'tree' / 'top')}  top" in lines
    assert len(lines) == 9


def test_what_is_no_archive_is_said_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match=r"x\.tar\.gz cannot be read: "):
        list_archive(tmp_path / "x.tar.gz")


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
def test_what_a_dead_client_sent_falls_on_its_own_place_beside_a_new_upload(tmp_path: Path, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    part, data = tmp_path / "part", os.urandom(300_000)
    script = resume_script(str(part), n_bytes=len(data)).text

    def upload() -> subprocess.Popen[bytes]:
        return subprocess.Popen([*shell, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    with upload() as old, upload() as new:
        assert old.stdin
        assert old.stdout
        assert new.stdout
        assert old.stdout.readline() == b"ready 0\n"
        old.stdin.write(data[:100_000])
        old.stdin.flush()
        begin = int(new.stdout.readline().removeprefix(b"ready "))  # what the old one has written so far
        new.communicate(data[begin:])
        old.communicate(data[100_000:200_000])
        assert (old.returncode, new.returncode) == (0, 0)
    assert part.read_bytes() == data
    part.write_bytes(data[:123_457])
    with upload() as late:
        assert late.stdout
        assert late.stdout.readline() == b"ready 123457\n"
        late.communicate(data[123_457:])
    assert part.read_bytes() == data


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
def test_what_lies_in_the_place_of_a_part_is_neither_waited_for_nor_followed(tmp_path: Path, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "link").symlink_to("precious")
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "part")
    for name in ("part", "link", "endless"):
        part, data = tmp_path / name, os.urandom(1000)
        script = resume_script(str(part), n_bytes=len(data)).text
        done = subprocess.run([*shell, "-c", script], input=data, capture_output=True, check=True, timeout=20)
        assert done.stdout == b"ready 0\n"
        assert part.read_bytes() == data
        assert not part.is_symlink()
    assert (tmp_path / "precious").read_bytes() == b"precious"


@pytest.mark.parametrize("shell", [["sh"], ["busybox", "sh"]])
def test_a_host_without_dd_takes_the_file_from_its_beginning(tmp_path: Path, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"no {shell[0]} here")
    part, data = tmp_path / "part", os.urandom(1000)
    part.write_bytes(data[:600])
    script = f"dd() {{ return 127; }}\n{resume_script(str(part), n_bytes=len(data)).text}"
    done = subprocess.run([*shell, "-c", script], input=data, capture_output=True, check=True, timeout=20)
    assert done.stdout == b"ready 0\n"
    assert part.read_bytes() == data


def test_an_upload_whose_part_was_taken_away_does_not_count_as_done(tmp_path: Path) -> None:
    part = tmp_path / "part"
    with subprocess.Popen(
        ["/bin/sh", "-c", resume_script(str(part), n_bytes=4).text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as upload:
        assert upload.stdin
        assert upload.stdout
        assert upload.stdout.readline() == b"ready 0\n"
        upload.stdin.write(b"da")
        upload.stdin.flush()
        deadline_s = time.monotonic() + 20
        while not part.stat().st_size:  # then it is open
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        part.unlink()
        upload.communicate(b"ta")
    assert upload.returncode == 1
