"""What every kind of host does alike; ``host_kinds.KINDS`` lists them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from host_kinds import SmallDisk
from peer_sshd import pid_there, processes_with, script, seconds, wait_until_gone, wait_until_running

from cuzkops.errors import OpsError, TimeoutExpired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from host_kinds import HostPeer

    from cuzkops.remote.host import Host

pytestmark = pytest.mark.peers


class TestRun:
    def test_status_and_both_streams(self, any_host: Host) -> None:
        done = any_host.run(script("echo out; echo err >&2; exit 3"))
        assert (done.status, done.stdout, done.stderr) == (3, b"out\n", b"err\n")

    def test_parameters_arrive_as_they_are(self, any_host: Host) -> None:
        value = 'it\'s "two" $HOME `id` \\n !x %s * ~ é\n\ttail'
        assert any_host.run(script('printf %s "$value"', value=value)).stdout == value.encode()

    def test_output_is_bytes(self, any_host: Host) -> None:
        done = any_host.run(script("printf 'a\\0b\\377\\376\\r\\n'; printf '\\303'; sleep 0.2; printf '\\251'"))
        assert done.stdout == b"a\0b\xff\xfe\r\n\xc3\xa9"
        assert done.out == "a\0b��\r\né"

    def test_long_lines_are_not_wrapped(self, any_host: Host) -> None:
        done = any_host.run(script('printf "%0200d\\377\\n" 7'))
        assert done.stdout == b"0" * 199 + b"7\xff\n"

    def test_much_output_on_both_streams(self, any_host: Host) -> None:
        body = "head -c 20000000 /dev/zero & head -c 5000000 /dev/zero >&2; wait"
        done = any_host.run(script(body), timeout_s=60)
        assert (len(done.stdout), len(done.stderr)) == (20_000_000, 5_000_000)

    def test_standard_input_is_empty(self, any_host: Host) -> None:
        assert any_host.run(script("cat; echo done"), timeout_s=10).stdout == b"done\n"

    def test_the_end_of_the_time_is_the_end_on_the_host(self, any_host: Host) -> None:
        mark = seconds()
        started_s = time.monotonic()
        with pytest.raises(TimeoutExpired, match=r"a test took more than 0\.5 s on .*; it was ended there"):
            any_host.run(script(f"sleep {mark} | cat; echo no"), timeout_s=0.5)
        assert time.monotonic() - started_s < 5
        wait_until_gone(mark)

    def test_what_ignores_the_polite_signal_is_ended_too(self, any_host: Host) -> None:
        mark = seconds()
        with pytest.raises(TimeoutExpired):
            any_host.run(script(f"trap '' TERM HUP INT; sleep {mark}; sleep {mark}"), timeout_s=0.5)
        wait_until_gone(mark)

    def test_a_detached_process_lives_on(self, any_host: Host) -> None:
        mark = seconds()
        started_s = time.monotonic()
        done = any_host.run(script(f"setsid sleep {mark} </dev/null >/dev/null 2>&1 & echo $!"))
        assert time.monotonic() - started_s < 2
        any_host.close()
        time.sleep(1)
        (process,) = processes_with(mark)
        assert pid_there(process) == int(done.out)
        process.kill()

    def test_an_end_by_a_signal_is_not_success(self, any_host: Host) -> None:
        done = any_host.run(script("kill -KILL $$"))
        assert done.status != 0
        assert any_host.run(script("(kill -KILL $(exec sh -c 'echo $PPID')); exit 5")).status != 0

    def test_ctrl_c_ends_it_and_comes_back(self, any_host: Host) -> None:
        mark = seconds()
        interrupt_when_running(mark)
        with pytest.raises(KeyboardInterrupt):
            any_host.run(script(f"sleep {mark}"))
        wait_until_gone(mark)
        assert any_host.run(script("echo on")).stdout == b"on\n"

    def test_closing_twice_is_fine(self, any_host: Host) -> None:
        any_host.run(script("true"))
        any_host.close()
        any_host.close()


def interrupt_when_running(mark: str) -> None:
    """Send this process a SIGINT, as a terminal does, once a process with the mark runs."""

    def wait_and_send() -> None:
        wait_until_running(mark)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait_and_send, daemon=True).start()


class TestStream:
    def test_lines_come_when_they_are_written(self, any_host: Host) -> None:
        lines = any_host.stream(script("echo one; sleep 0.5; printf 'two\\377\\nlast'"))
        assert next(lines) == b"one"
        started_s = time.monotonic()
        lines_left = list(lines)
        assert time.monotonic() - started_s > 0.3
        assert lines_left == [b"two\xff", b"last"]

    def test_a_failure_is_told_after_the_last_line(self, any_host: Host) -> None:
        lines = any_host.stream(script("echo one; echo why >&2; exit 4"))
        assert next(lines) == b"one"
        with pytest.raises(OpsError, match="a test ended with status 4: why"):
            next(lines)

    def test_closing_it_ends_the_script(self, any_host: Host) -> None:
        mark = seconds()
        lines = any_host.stream(script(f"echo one; sleep {mark}; echo two"))
        assert next(lines) == b"one"
        wait_until_running(mark)
        close(lines)
        wait_until_gone(mark)
        assert any_host.run(script("echo on")).stdout == b"on\n"

    def test_closing_the_host_ends_it_too(self, any_host: Host) -> None:
        mark = seconds()
        lines = any_host.stream(script(f"echo one; sleep {mark}"))
        assert next(lines) == b"one"
        any_host.close()
        wait_until_gone(mark)

    def test_silence_has_a_limit(self, any_host: Host) -> None:
        mark = seconds()
        lines = any_host.stream(script(f"echo one; sleep {mark}"), idle_timeout_s=3)
        assert next(lines) == b"one"
        with pytest.raises(TimeoutExpired, match="said nothing for 3 s"):
            next(lines)
        wait_until_gone(mark)

    def test_much_of_it_comes_whole(self, any_host: Host) -> None:
        n_lines = sum(1 for _ in any_host.stream(script("seq 1 300000")))
        assert n_lines == 300_000

    def test_ctrl_c_ends_it(self, any_host: Host) -> None:
        mark = seconds()
        interrupt_when_running(mark)
        with pytest.raises(KeyboardInterrupt):
            list(any_host.stream(script(f"echo one; sleep {mark}")))
        wait_until_gone(mark)


def close(lines: Iterator[bytes]) -> None:
    lines.close()  # type: ignore[attr-defined] # a generator, as the contract's "closing the iterator" implies


class TestFiles:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        path = tmp_path / "source"
        path.write_bytes(random.Random(7).randbytes(3_000_017))
        return path

    def test_a_file_arrives_whole_with_its_mode(self, any_host: Host, source: Path, folder: Path) -> None:
        seen: list[tuple[int, int]] = []
        any_host.put(source, f"{folder}/-new", mode=0o750, progress=lambda done, total: seen.append((done, total)))
        arrived = folder / "-new"
        assert arrived.read_bytes() == source.read_bytes()
        assert arrived.stat().st_mode & 0o7777 == 0o750
        assert seen == sorted(seen)
        assert seen[-1] == (3_000_017, 3_000_017)
        assert [path.name for path in folder.iterdir()] == ["-new"]

    def test_an_empty_file_arrives(self, any_host: Host, tmp_path: Path, folder: Path) -> None:
        (tmp_path / "empty").touch()
        any_host.put(tmp_path / "empty", f"{folder}/empty", mode=0o600)
        assert (folder / "empty").read_bytes() == b""

    def test_a_running_executable_is_replaced(self, any_host: Host, folder: Path) -> None:
        sleep = Path(shutil.which("sleep") or "").resolve()
        any_host.put(sleep, f"{folder}/daemon", mode=0o755)
        with subprocess.Popen([folder / "daemon", "100"]) as process:
            any_host.put(sleep, f"{folder}/daemon", mode=0o755)
            assert process.poll() is None
            process.kill()

    def test_a_file_that_may_not_be_written_is_replaced(self, any_host: Host, source: Path, folder: Path) -> None:
        (folder / "new").write_text("old")
        (folder / "new").chmod(0o444)
        any_host.put(source, f"{folder}/new", mode=0o444)
        assert (folder / "new").read_bytes() == source.read_bytes()

    def test_a_folder_is_not_overwritten(self, any_host: Host, source: Path, folder: Path) -> None:
        with pytest.raises(OpsError, match="it is a folder") as caught:
            any_host.put(source, str(folder), mode=0o644)
        assert str(folder) in caught.value.message
        assert list(folder.iterdir()) == []

    def test_the_folder_must_exist(self, any_host: Host, source: Path, folder: Path) -> None:
        with pytest.raises(OpsError, match=r"there is no folder .*/no/such/"):
            any_host.put(source, f"{folder}/no/such/file", mode=0o644)

    def test_a_read_only_folder_is_said(self, any_host: Host, source: Path, read_only: SmallDisk) -> None:
        said = f"the folder {read_only.there}/ takes no new file: no permission or read-only"
        with pytest.raises(OpsError, match=re.escape(said)):
            any_host.put(source, f"{read_only.there}/new", mode=0o644)
        assert list(read_only.seen.iterdir()) == []

    def test_a_local_file_that_is_missing(self, any_host: Host, tmp_path: Path, folder: Path) -> None:
        with pytest.raises(OpsError, match="is not a file on this machine"):
            any_host.put(tmp_path / "missing", f"{folder}/x", mode=0o644)

    @pytest.fixture
    def read_only(self, peer: HostPeer, folder: Path) -> Iterator[SmallDisk]:
        """A folder that takes no file: a read-only mount for root, whom permissions do not stop."""
        read_only = folder / "read-only"
        read_only.mkdir(mode=0o555)
        with contextlib.ExitStack() as undo:
            seen = peer.mount_tmpfs(read_only, "ro", undo) if peer.login_uid == 0 else read_only
            yield SmallDisk(read_only, seen)

    def test_a_full_disk_is_noticed_before_the_data_goes(
        self, any_host: Host, source: Path, small_disk: SmallDisk
    ) -> None:
        (small_disk.seen / "new").write_text("old")
        seen: list[int] = []
        with pytest.raises(OpsError) as caught:
            any_host.put(source, f"{small_disk.there}/new", mode=0o644, progress=lambda done, _: seen.append(done))
        assert caught.value.code == "disk-full"
        assert "needs 2.86 MiB, and 2.00 MiB are free" in caught.value.message
        assert seen == []
        assert [(path.name, path.read_text()) for path in small_disk.seen.iterdir()] == [("new", "old")]

    def test_a_disk_that_fills_on_the_way(self, any_host: Host, tmp_path: Path, small_disk: SmallDisk) -> None:
        (small_disk.seen / "new").write_text("old")
        source = tmp_path / "source"
        source.write_bytes(bytes(1_900_000))

        def fill(_done: int, _total: int) -> None:
            with contextlib.suppress(OSError):
                (small_disk.seen / "other").write_bytes(bytes(1_900_000))

        with pytest.raises(OpsError) as caught:
            any_host.put(source, f"{small_disk.there}/new", mode=0o644, progress=fill)
        assert caught.value.code == "disk-full"
        assert "needs 1.81 MiB, and " in caught.value.message
        assert (small_disk.seen / "new").read_text() == "old"
        assert sorted(path.name for path in small_disk.seen.iterdir()) == ["new", "other"]

    @pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
    def test_an_interrupted_upload_leaves_nothing(
        self, any_host: Host, source: Path, folder: Path, error: type[BaseException]
    ) -> None:
        (folder / "new").write_text("old")

        def interrupt(done: int, total: int) -> None:
            if done > total // 2:
                raise error

        with pytest.raises(error):
            any_host.put(source, f"{folder}/new", mode=0o644, progress=interrupt)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("new", "old")]

    def test_a_download_appends_from_an_offset(
        self, any_host: Host, source: Path, folder: Path, tmp_path: Path
    ) -> None:
        data = source.read_bytes()
        there = Path(shutil.copy(source, folder))
        copy = tmp_path / "copy"
        assert any_host.get(str(there), copy) == len(data)
        assert copy.read_bytes() == data
        with there.open("ab") as file:
            file.write(b"more\xff")
        assert any_host.get(str(there), copy, offset=len(data)) == 5
        assert copy.read_bytes() == data + b"more\xff"
        assert any_host.get(str(there), copy, offset=len(data) + 5) == 0
        assert any_host.get(str(there), copy, offset=len(data) + 500) == 0

    def test_why_a_download_failed(self, any_host: Host, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(OpsError, match=r"missing could not be read from .*: .*No such file"):
            any_host.get(f"{folder}/missing", tmp_path / "copy")
        with pytest.raises(OpsError, match="it is a folder"):
            any_host.get(str(folder), tmp_path / "copy")
        (folder / "file").write_text("x")
        with pytest.raises(OpsError, match="copy cannot be written: No such file or directory"):
            any_host.get(f"{folder}/file", tmp_path / "nowhere" / "copy")


CLIENT = """
import sys
from pathlib import Path
from cuzkops.remote.host import Script
from cuzkops.remote.opening import open_host
from cuzkops.target import parse_target
host = open_host(parse_target(sys.argv[1]))
if sys.argv[2] == "run":
    host.run(Script("t", f"sleep {sys.argv[3]}"))
elif sys.argv[2] == "stream":
    list(host.stream(Script("t", f"echo one; sleep {sys.argv[3]}")))
else:
    import time
    def wait(done, total):
        print("sent", flush=True)
        time.sleep(100)
    host.put(Path(sys.argv[3]), sys.argv[4], mode=0o644, progress=wait)
"""


def client(host: Host, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of its own that uses the host, so that it can be killed."""
    command = [sys.executable, "-c", CLIENT, str(host.target), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


class TestClientDies:
    @pytest.mark.parametrize("what", ["run", "stream"])
    def test_its_script_is_ended_on_the_host(self, any_host: Host, what: str) -> None:
        mark = seconds()
        with client(any_host, what, mark) as process:
            wait_until_running(mark, "sleep")
            process.kill()
        wait_until_gone(mark)

    def test_its_upload_is_removed_and_the_old_file_stays(self, any_host: Host, tmp_path: Path, folder: Path) -> None:
        (folder / "new").write_text("old")
        (tmp_path / "source").write_bytes(bytes(3_000_000))
        with client(any_host, "put", f"{tmp_path}/source", f"{folder}/new") as process:
            assert process.stdout
            assert process.stdout.readline() == b"sent\n"
            assert len(list(folder.iterdir())) == 2
            process.kill()
        deadline = time.monotonic() + 10
        while len(list(folder.iterdir())) > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("new", "old")]
