"""An upload that was cut goes on where it stopped, on every kind of host, also when its client was killed."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cuzkops.errors import OpsError

if TYPE_CHECKING:
    from pathlib import Path

    from host_kinds import HostPeer, SmallDisk

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
def part(folder: Path) -> Path:
    return folder / "part"


def arrive(peer: HostPeer, part: Path, data: bytes) -> None:
    """As if an earlier upload had brought this much."""
    part.write_bytes(data)
    os.chown(part, peer.login_uid, -1)


@pytest.mark.parametrize("n_there", [0, 1, 1_234_567, 3_000_000])
def test_the_rest_is_sent(any_host: Host, peer: HostPeer, source: Path, part: Path, n_there: int) -> None:
    data = source.read_bytes()
    if n_there:
        arrive(peer, part, data[:n_there])
    seen: list[tuple[int, int]] = []
    assert any_host.resume(source, str(part), progress=lambda *now: seen.append(now)) == len(data) - n_there
    assert part.read_bytes() == data
    assert all(done > n_there and total == len(data) for done, total in seen)


def test_a_part_that_is_too_long_begins_anew(any_host: Host, peer: HostPeer, source: Path, part: Path) -> None:
    arrive(peer, part, bytes(3_000_001))
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


def test_a_full_disk_is_noticed_and_what_arrived_is_gone_where_it_fills_on_the_way(
    any_host: Host, source: Path, tmp_path: Path, small_disk: SmallDisk
) -> None:
    with pytest.raises(OpsError, match=r"needs 2\.86 MiB, and 2\.00 MiB are free") as caught:
        any_host.resume(source, f"{small_disk.there}/part")
    assert caught.value.code == "disk-full"
    smaller = tmp_path / "smaller"
    smaller.write_bytes(bytes(1_900_000))

    def fill(_done: int, _total: int) -> None:
        with contextlib.suppress(OSError):
            (small_disk.seen / "other").write_bytes(bytes(1_900_000))

    with pytest.raises(OpsError) as caught:
        any_host.resume(smaller, f"{small_disk.there}/part", progress=fill)
    assert caught.value.code == "disk-full"
    assert [path.name for path in small_disk.seen.iterdir() if path.stat().st_size] == ["other"]
