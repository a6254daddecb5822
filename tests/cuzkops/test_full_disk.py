"""A disk on which nothing more can be written: what an operator needs then still works, over and over."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import holding
from test_clean import Shipper
from test_kill import kill_json, write_daemon
from test_lock import dead, owner, quiet

from cuzkops.errors import OpsError
from cuzkops.remote import lock
from cuzkops.remote.layout import Layout
from cuzkops.steps.aim import KillRequest
from cuzkops.steps.clean import clean
from cuzkops.steps.doctor import examine_host
from cuzkops.steps.kill import kill
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.status import status
from cuzkops.steps.unlock import unlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.local import LocalHost
    from cuzkops.steps.build import Artifact
    from cuzkops.steps.findings import Finding


def faults(host: LocalHost, layout: Layout) -> list[Finding]:
    """What the preflight finds, except that the path which pytest chose may be too long for a socket."""
    found = preflight_host(host, layout, needs_gpu=False).findings
    return [finding for finding in found if finding.code != "socket-path"]


def ran(commands: list[list[str]]) -> str:
    """Run commands one after the other; returns why one of them failed, or an empty string."""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return f"there is no {command[0]} here"
        if done.returncode:
            return done.stderr.strip()
    return ""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few MiB, a real one: ext4 in a file, else in memory."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mount, image = tmp_path / "small", tmp_path / "image"
    mount.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 28 << 20)
    # Without delayed allocation, so that what is free is a number that one can wait for to become 0.
    ext4 = [
        ["mkfs.ext4", "-q", "-b", "4096", "-m", "0", "-N", "400", "-F", str(image)],
        ["mount", "-o", "loop,nodelalloc", str(image), str(mount)],
    ]
    tmpfs = [["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=400", "none", str(mount)]]
    if (why_not_ext4 := ran(ext4)) and (why_not := ran(tmpfs)):
        pytest.skip(f"no small file system can be mounted here: {why_not_ext4}; {why_not}")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True)


@pytest.fixture
def layout(small: Path) -> Layout:
    return Layout(str(small / "remote dir"), "prover")


def fill(small: Path) -> None:
    """Write until not one byte is taken any more; what another file just gave up is taken, too."""
    for n in itertools.count():
        with (small / f"filler-{n}").open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass
        if not (small / f"filler-{n}").stat().st_size:
            break
    found = os.statvfs(small)
    assert found.f_bavail == 0


def use_all_inodes(small: Path) -> None:
    """Make empty files until there can be no more."""
    with contextlib.suppress(OSError):
        for n in itertools.count():
            (small / f"empty-{n}").touch()
    with pytest.raises(OSError, match="No space left"):
        (small / "one more").touch()


@pytest.fixture(params=[fill, use_all_inodes], ids=["bytes", "inodes"])
def exhaust(request: pytest.FixtureRequest, small: Path) -> Callable[[], None]:
    """Uses up what the file system has left."""
    return lambda: request.param(small)


def use_once(host: LocalHost, layout: Layout) -> None:
    """What every command that changes a host does: it leaves the reserve."""
    with lock.held(host, layout, owner("run-0"), quiet):
        pass
    assert len(list(Path(layout.reserve).iterdir())) == 16


def actions(layout: Layout) -> list[str]:
    return [json.loads(line)["action"] for line in Path(layout.audit).read_text().splitlines() if line]


def test_the_lock_is_taken_and_given_back_on_a_full_disk_again_and_again(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None]
) -> None:
    use_once(host, layout)
    exhaust()
    for n in range(4):
        with lock.held(host, layout, owner(f"run-{n}"), quiet) as step:
            step("kill")
            Path(layout.remote_dir, "something small").write_bytes(b"x" * 20000)
            Path(layout.remote_dir, "something small").unlink()
        assert not Path(layout.lock).exists()
        assert Path(layout.reserve).is_dir()


def test_a_daemon_is_stopped_on_a_full_disk_with_baseline_and_audit(
    host: LocalHost, layout: Layout, small: Path, exhaust: Callable[[], None]
) -> None:
    use_once(host, layout)
    for n in range(3):
        with holding(5) as process:
            write_daemon(layout, process.pid)
            exhaust()
            with lock.held(host, layout, owner(f"run-{n}"), quiet):
                assert kill(host, layout, KillRequest()).how == "terminated"
            assert kill_json(layout).leader.pid == process.pid
            assert actions(layout) == ["kill"] * (n + 1)
            assert status(host, layout).holder is None
            (small / "filler-0").unlink(missing_ok=True)  # the next daemon could not write its record
            (small / "empty-0").unlink(missing_ok=True)
            (small / "empty-1").unlink(missing_ok=True)
            (small / "empty-2").unlink(missing_ok=True)


def test_a_full_disk_is_cleaned(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None], make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    shipper = Shipper(host, make_artifact, tmp_path)
    with lock.held(host, layout, owner("run-0"), quiet):
        releases = [shipper.ship(layout) for _ in range(3)]
    exhaust()
    with lock.held(host, layout, owner("run-1"), quiet):
        result = clean(host, layout, 1)
    assert set(result.removed.releases) == set(releases[:2])
    assert result.freed_bytes > 0
    assert actions(layout)[-1] == "clean"
    assert len(list(Path(layout.reserve).iterdir())) == 16


def test_the_lock_of_a_client_that_died_with_the_reserve_is_taken_over_and_removed(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None]
) -> None:
    use_once(host, layout)
    exhaust()
    lock.acquire(host, layout, dead(), quiet)  # it gave the reserve up, and died
    assert not Path(layout.reserve).exists()
    said: list[str] = []
    with lock.held(host, layout, owner("run-2"), said.append):
        pass
    assert "took over the lock" in said[0]
    assert Path(layout.reserve).is_dir()
    lock.acquire(host, layout, dead("run-3"), quiet)
    assert unlock(host, layout) is not None
    assert actions(layout) == ["unlock"]
    with lock.held(host, layout, owner("run-4"), quiet):
        pass
    assert Path(layout.reserve).is_dir()


def test_the_lock_of_a_dead_client_is_taken_over_where_its_reserve_is_still_there(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None]
) -> None:
    use_once(host, layout)
    lock.acquire(host, layout, dead(), quiet)
    assert Path(layout.reserve).is_dir()  # there was room
    exhaust()
    with lock.held(host, layout, owner("run-2"), quiet):
        assert not Path(layout.reserve).exists()
    assert Path(layout.reserve).is_dir()


def test_without_a_reserve_the_sentence_says_that_the_disk_is_full(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None]
) -> None:
    Path(layout.remote_dir).mkdir()
    exhaust()
    with pytest.raises(OpsError, match=r"take the lock failed, the disk is full: .*No space left on device") as caught:
        lock.acquire(host, layout, owner(), quiet)
    assert caught.value.code == "disk-full"
    assert "cuzkops doctor" in caught.value.hint
    assert not Path(layout.lock).exists()
    assert status(host, layout).holder is None


def test_a_full_disk_is_called_that_and_not_a_folder_that_may_not_be_written(
    host: LocalHost, layout: Layout, exhaust: Callable[[], None]
) -> None:
    use_once(host, layout)
    assert faults(host, layout) == []
    exhaust()
    (finding,) = faults(host, layout)
    assert (finding.code, finding.severity) == ("disk-full", "error")
    assert finding.message.startswith("the disk is full: ")
    assert "another --remote-dir or user" not in finding.hint
    names = [check.name for check in examine_host(host, layout) if check.state == "error"]
    assert names == ["disk-full"]


def test_a_folder_that_may_not_be_written_says_why(host: LocalHost, small: Path, layout: Layout) -> None:
    use_once(host, layout)
    subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
    (finding,) = faults(host, layout)
    assert finding.code == "folder-not-writable"
    assert finding.message.endswith(": Read-only file system")
