"""An upload that was cut goes on where it stopped, on every kind of host, also when its client was killed."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from test_hosts import mount_tmpfs

from cuzkops.errors import OpsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host

pytestmark = pytest.mark.peers

CLIENT = """
import sys, time
from pathlib import Path
from cuzkops.remote.opening import open_host
from cuzkops.target import parse_target
def wait(done, total):
    if done > 1_000_000:
        print("sent", flush=True)
        time.sleep(100)
open_host(parse_target(sys.argv[1])).resume(Path(sys.argv[2]), sys.argv[3], progress=wait)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(random.Random(7).randbytes(3_000_000))
    return path


@pytest.fixture
def part(tmp_path: Path) -> Path:
    folder = tmp_path / "it's there"
    folder.mkdir()
    return folder / "part"


@pytest.mark.parametrize("n_there", [0, 1, 1_234_567, 3_000_000])
def test_the_rest_is_sent(any_host: Host, source: Path, part: Path, n_there: int) -> None:
    data = source.read_bytes()
    if n_there:
        part.write_bytes(data[:n_there])
    seen: list[tuple[int, int]] = []
    assert any_host.resume(source, str(part), progress=lambda *now: seen.append(now)) == len(data) - n_there
    assert part.read_bytes() == data
    assert all(done > n_there and total == len(data) for done, total in seen)


def test_a_part_that_is_too_long_begins_anew(any_host: Host, source: Path, part: Path) -> None:
    part.write_bytes(bytes(3_000_001))
    assert any_host.resume(source, str(part)) == 3_000_000
    assert part.read_bytes() == source.read_bytes()
    assert part.stat().st_mode & 0o777 in (0o600, 0o644)  # what is made here is private; this one was made by the test


def test_what_a_killed_client_sent_stays_and_is_gone_on_from(any_host: Host, source: Path, part: Path) -> None:
    command = [sys.executable, "-c", CLIENT, str(any_host.target), str(source), str(part)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        assert client.stdout.readline() == "sent\n"
        client.kill()
    data = source.read_bytes()
    n_sent = any_host.resume(source, str(part))
    assert n_sent <= len(data)
    assert part.read_bytes() == data


def test_a_cut_says_how_much_arrived_and_keeps_it(any_host: Host, source: Path, part: Path) -> None:
    def cut(done: int, _total: int) -> None:
        if done > 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        any_host.resume(source, str(part), progress=cut)
    assert 0 < part.stat().st_size < 3_000_000
    assert any_host.resume(source, str(part)) < 3_000_000
    assert part.read_bytes() == source.read_bytes()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small disk"
    folder.mkdir()
    with contextlib.ExitStack() as undo:
        mount_tmpfs(folder, "size=2m", undo)
        yield folder


def test_a_full_disk_is_noticed_and_what_arrived_is_gone_where_it_fills_on_the_way(
    any_host: Host, source: Path, tmp_path: Path, small_disk: Path
) -> None:
    with pytest.raises(OpsError, match=r"needs 2\.86 MiB, and 2\.00 MiB are free") as caught:
        any_host.resume(source, f"{small_disk}/part")
    assert caught.value.code == "disk-full"
    smaller = tmp_path / "smaller"
    smaller.write_bytes(bytes(1_900_000))

    def fill(_done: int, _total: int) -> None:
        with contextlib.suppress(OSError):
            (small_disk / "other").write_bytes(bytes(1_900_000))

    with pytest.raises(OpsError) as caught:
        any_host.resume(smaller, f"{small_disk}/part", progress=fill)
    assert caught.value.code == "disk-full"
    assert [path.name for path in small_disk.iterdir() if path.stat().st_size] == ["other"]
