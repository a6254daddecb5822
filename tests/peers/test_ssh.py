"""What a host does, on each kind of it; then what only SSH can get wrong."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from peer_sshd import (
    Sshd,
    freeze,
    make_key,
    processes_with,
    wait_until_gone,
    wait_until_running,
    write_ssh_config,
)

from cuzkops.demohost import DemoHost
from cuzkops.errors import OpsError, TimeoutExpired, UnreachableError, UsageError
from cuzkops.remote import connection
from cuzkops.remote.connection import SshHost
from cuzkops.remote.host import Script
from cuzkops.remote.opening import open_host
from cuzkops.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host

pytestmark = pytest.mark.peers


def script(body: str, **parameters: str) -> Script:
    return Script("a test", body, parameters)


def seconds() -> str:
    """A duration that marks one `sleep` among all processes: several hours, unique."""
    return f"{random.randrange(10_000, 20_000)}.{random.randrange(10**9):09d}"


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
        assert process.pid == int(done.out)
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
        started_s = time.monotonic()
        assert next(lines) == b"one"
        assert time.monotonic() - started_s < 0.5
        assert list(lines) == [b"two\xff", b"last"]

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
        lines = any_host.stream(script(f"echo one; sleep {mark}"), idle_timeout_s=0.5)
        assert next(lines) == b"one"
        with pytest.raises(TimeoutExpired, match=r"said nothing for 0\.5 s"):
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

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "a folder with 'quotes'"
        folder.mkdir()
        return folder

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

    def test_a_read_only_folder_is_said(self, any_host: Host, source: Path, read_only: Path) -> None:
        with pytest.raises(OpsError, match=f"the folder {read_only}/ takes no new file: no permission or read-only"):
            any_host.put(source, f"{read_only}/new", mode=0o644)
        assert list(read_only.iterdir()) == []

    def test_a_local_file_that_is_missing(self, any_host: Host, tmp_path: Path, folder: Path) -> None:
        with pytest.raises(OpsError, match="is not a file on this machine"):
            any_host.put(tmp_path / "missing", f"{folder}/x", mode=0o644)

    @pytest.fixture
    def read_only(self, tmp_path: Path) -> Iterator[Path]:
        """A folder that takes no file: a read-only mount for root, whom permissions do not stop."""
        folder = tmp_path / "read-only"
        folder.mkdir(mode=0o555)
        with contextlib.ExitStack() as undo:
            if os.geteuid() == 0:
                mount_tmpfs(folder, "ro", undo)
            yield folder

    @pytest.fixture
    def small_disk(self, tmp_path: Path) -> Iterator[Path]:
        folder = tmp_path / "small disk"
        folder.mkdir()
        with contextlib.ExitStack() as undo:
            mount_tmpfs(folder, "size=2m", undo)
            yield folder

    def test_a_full_disk_is_noticed_before_the_data_goes(self, any_host: Host, source: Path, small_disk: Path) -> None:
        (small_disk / "new").write_text("old")
        seen: list[int] = []
        with pytest.raises(OpsError) as caught:
            any_host.put(source, f"{small_disk}/new", mode=0o644, progress=lambda done, _: seen.append(done))
        assert caught.value.code == "disk-full"
        assert "needs 3,000,017 bytes, have 2,0" in caught.value.message
        assert seen == []
        assert [(path.name, path.read_text()) for path in small_disk.iterdir()] == [("new", "old")]

    def test_a_disk_that_fills_on_the_way(self, any_host: Host, tmp_path: Path, small_disk: Path) -> None:
        (small_disk / "new").write_text("old")
        source = tmp_path / "source"
        source.write_bytes(bytes(1_900_000))

        def fill(_done: int, _total: int) -> None:
            with contextlib.suppress(OSError):
                (small_disk / "other").write_bytes(bytes(1_900_000))

        with pytest.raises(OpsError) as caught:
            any_host.put(source, f"{small_disk}/new", mode=0o644, progress=fill)
        assert caught.value.code == "disk-full"
        assert "needs 1,900,000 bytes, have " in caught.value.message
        assert (small_disk / "new").read_text() == "old"
        assert sorted(path.name for path in small_disk.iterdir()) == ["new", "other"]

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

    def test_a_download_appends_from_an_offset(self, any_host: Host, source: Path, tmp_path: Path) -> None:
        data = source.read_bytes()
        copy = tmp_path / "copy"
        assert any_host.get(str(source), copy) == len(data)
        assert copy.read_bytes() == data
        with source.open("ab") as file:
            file.write(b"more\xff")
        assert any_host.get(str(source), copy, offset=len(data)) == 5
        assert copy.read_bytes() == data + b"more\xff"
        assert any_host.get(str(source), copy, offset=len(data) + 5) == 0
        assert any_host.get(str(source), copy, offset=len(data) + 500) == 0

    def test_why_a_download_failed(self, any_host: Host, tmp_path: Path) -> None:
        with pytest.raises(OpsError, match=r"missing could not be read from .*: .*No such file"):
            any_host.get(f"{tmp_path}/missing", tmp_path / "copy")
        with pytest.raises(OpsError, match="it is a folder"):
            any_host.get(str(tmp_path), tmp_path / "copy")
        (tmp_path / "file").write_text("x")
        with pytest.raises(OpsError, match="copy cannot be written: No such file or directory"):
            any_host.get(f"{tmp_path}/file", tmp_path / "nowhere" / "copy")


def mount_tmpfs(folder: Path, options: str, undo: contextlib.ExitStack) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    undo.callback(lambda: subprocess.run(["umount", folder], check=True))


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

    def test_its_upload_is_removed_and_the_old_file_stays(self, any_host: Host, tmp_path: Path) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
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


class TestHostKeys:
    def test_a_new_host_is_stored_and_said_once(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CUZKOPS_KNOWN_HOSTS", str(tmp_path / "known_hosts"))
        said: list[str] = []
        for _ in range(2):
            open_host(sshd.target, on_host_key=said.append).close()
        listed = subprocess.run(
            ["ssh-keygen", "-l", "-f", sshd.folder / "hostkey"], check=True, capture_output=True, text=True
        )
        assert len(said) == 1
        assert listed.stdout.split()[1] in said[0]
        assert (tmp_path / "known_hosts").read_text().startswith(f"[127.0.0.1]:{sshd.port} ssh-ed25519 ")

    def test_strict_refuses_a_new_host(self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUZKOPS_KNOWN_HOSTS", str(tmp_path / "known_hosts"))
        monkeypatch.setenv("CUZKOPS_HOST_KEYS", "strict")
        with pytest.raises(UnreachableError, match="is in none of"):
            open_host(sshd.target)
        assert not (tmp_path / "known_hosts").exists()

    def test_a_changed_key_is_refused_and_the_hint_works(self, start_sshd: Callable[..., Sshd]) -> None:
        server = start_sshd()
        server.stop()
        for name in ("hostkey", "hostkey.pub"):
            (server.folder / name).unlink()
        old = (server.folder / "known_hosts").read_text()
        server.start()
        changed = old.replace(old.split()[0], f"[127.0.0.1]:{server.port}")
        (server.folder / "known_hosts").write_text("# first line\n" + changed)
        with pytest.raises(UnreachableError) as caught:
            open_host(server.target)
        assert caught.value.code == "host-key-changed"
        assert f"{server.folder}/known_hosts line 2" in caught.value.message
        subprocess.run(caught.value.hint.partition("forget it: ")[2], shell=True, check=True, capture_output=True)  # noqa: S602 - as the user would
        open_host(server.target).close()

    def test_an_rsa_host_key_is_known_again(self, start_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
        subprocess.run(["ssh-keygen", "-q", "-t", "rsa", "-N", "", "-f", tmp_path / "rsa"], check=True)
        server = start_sshd(f"HostKey {tmp_path}/rsa")
        public = " ".join((tmp_path / "rsa.pub").read_text().split()[:2])
        (server.folder / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {public}\n")
        open_host(server.target).close()  # the server prefers the other key, which is not known


class TestNoWayIn:
    def test_nothing_listens(self, sshd: Sshd) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            with pytest.raises(UnreachableError, match=f"nothing listens on 127.0.0.1 port {port}") as caught:
                open_host(Target("127.0.0.1", None, port))
        assert sshd.port != port
        assert caught.value.exit_status == 3

    def test_no_such_host(self) -> None:
        with pytest.raises(UnreachableError, match=r"no address is known for the host no-such-host\.invalid"):
            open_host(Target("no-such-host.invalid"))

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
    def test_not_an_ssh_server(self, answer: bytes) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

            def serve() -> None:
                link, _ = server.accept()
                link.sendall(answer)
                link.shutdown(socket.SHUT_WR) if answer else time.sleep(5)
                link.close()

            threading.Thread(target=serve, daemon=True).start()
            started_s = time.monotonic()
            with pytest.raises(UnreachableError, match=f"127.0.0.1 port {port} does not answer as an SSH server"):
                open_host(Target("127.0.0.1", None, port), connect_timeout_s=1)
            assert time.monotonic() - started_s < 4

    def test_a_frozen_server_does_not_hang_the_login(self, start_sshd: Callable[..., Sshd]) -> None:
        server = start_sshd()
        process = psutil.Process(int((server.folder / "sshd.pid").read_text()))
        freeze([process])
        try:
            with pytest.raises(UnreachableError):
                open_host(server.target, connect_timeout_s=1)
        finally:
            process.resume()

    def test_which_keys_were_offered(self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_key(tmp_path / "other")
        write_ssh_config(tmp_path / "config", tmp_path / "other")
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UnreachableError) as caught:
            open_host(sshd.target)
        assert caught.value.code == "not-accepted"
        assert f"did not let {sshd.target.user} in; offered: {tmp_path}/other" in caught.value.message

    def test_a_locked_key_is_said_and_nothing_is_asked(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_key(tmp_path / "locked", passphrase="not asked for")  # noqa: S106 - a key of this test alone
        write_ssh_config(tmp_path / "config", tmp_path / "locked")
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UnreachableError, match="locked by a passphrase"):
            open_host(sshd.target)

    def test_no_key_at_all(self, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("CUZKOPS_SSH_CONFIG")
        with pytest.raises(UnreachableError, match="offered: no key at all"):
            open_host(sshd.target)

    @pytest.mark.parametrize("content", ["Match nonsense\n", "Port many\n", None])
    def test_an_ssh_config_that_cannot_be_used(
        self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
    ) -> None:
        if content is not None:
            (tmp_path / "config").write_text(f"Host *\n{content}")
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UsageError, match="config cannot be used"):
            open_host(Target(sshd.target.host))

    @pytest.mark.parametrize("shell", ["echo This account is not available; exit 1", "true", "exit 3"])
    def test_an_account_that_runs_no_commands(self, start_sshd: Callable[..., Sshd], shell: str) -> None:
        server = start_sshd(f"ForceCommand {shell}")
        with open_host(server.target) as host, pytest.raises(UnreachableError, match="did not start /bin/sh") as caught:
            host.run(script("true"))
        assert ("This account is not available" in caught.value.message) == shell.startswith("echo")


class TestWaysIn:
    def test_an_alias_of_ssh_config(self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        lines = [f"    Port {sshd.port}", "Host my-gpu", "    HostName 127.0.0.1"]
        write_ssh_config(tmp_path / "config", sshd.folder / "id", *lines)
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with open_host(Target("my-gpu")) as host:
            assert host.run(script("echo here")).stdout == b"here\n"

    def test_through_a_jump_host(
        self, sshd: Sshd, shared_demo_host: DemoHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inner = shared_demo_host.target
        (tmp_path / "config").write_text(
            f"Host inner\n HostName 127.0.0.1\n Port {inner.port}\n IdentityFile {shared_demo_host.folder}/id\n"
            f" ProxyJump localhost:{sshd.port}\n"
            f"Host localhost\n IdentityFile {sshd.folder}/id\n"
        )
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        monkeypatch.setenv("CUZKOPS_KNOWN_HOSTS", str(tmp_path / "known_hosts"))
        said: list[str] = []
        with open_host(Target("inner"), on_host_key=said.append) as host:
            assert host.run(script("echo $HOME")).out == f"{shared_demo_host.home}\n"
        assert [f":{port}:" in text for port, text in zip((sshd.port, inner.port), said, strict=True)] == [True, True]

    def test_ipv6(self, start_sshd: Callable[..., Sshd]) -> None:
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 loopback here")
        server = start_sshd(address="::1")
        assert (server.folder / "known_hosts").read_text().startswith(f"[::1]:{server.port} ")
        with open_host(server.target) as host:
            assert host.run(script("echo six")).stdout == b"six\n"

    @pytest.mark.parametrize("shell", ["fish", "tcsh", "bash"])
    def test_any_login_shell(self, start_sshd: Callable[..., Sshd], shell: str, tmp_path: Path) -> None:
        if not shutil.which(shell):
            pytest.skip(f"no {shell} here (on Debian: apt install {shell})")
        server = start_sshd(f'ForceCommand exec {shell} -c "$SSH_ORIGINAL_COMMAND"')
        mark = seconds()
        with open_host(server.target) as host:
            done = host.run(script("for x in 1 2; do echo $x 2>&1; done; echo '!x' \"$v\"; exit 4", v="it's !y"))
            assert (done.status, done.stdout) == (4, b"1\n2\n!x it's !y\n")
            with pytest.raises(TimeoutExpired):
                host.run(script(f"sleep {mark}"), timeout_s=0.5)
            (tmp_path / "source").write_bytes(b"\0" * 500_000)
            host.put(tmp_path / "source", f"{tmp_path}/copy", mode=0o600)
            assert (tmp_path / "copy").stat().st_size == 500_000
        wait_until_gone(mark)

    def test_a_login_shell_that_talks_first(self, start_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
        noise = "echo Welcome; echo warning >&2; printf half"
        server = start_sshd(f'ForceCommand {noise}; exec sh -c "$SSH_ORIGINAL_COMMAND"')
        (tmp_path / "source").write_bytes(b"data")
        with open_host(server.target) as host:
            done = host.run(script("echo one; echo two >&2"))
            assert (done.stdout, done.stderr) == (b"one\n", b"two\n")
            assert list(host.stream(script("echo one"))) == [b"one"]
            host.put(tmp_path / "source", f"{tmp_path}/copy", mode=0o600)
            assert host.get(f"{tmp_path}/copy", tmp_path / "back") == 4


class TestLostHost:
    def test_a_frozen_host_is_noticed(self, start_sshd: Callable[..., Sshd]) -> None:
        server = start_sshd()
        with SshHost(server.target, beat_s=0.5, silence_s=1) as host:
            host.run(script("true"))
            time.sleep(2)  # it beats
            assert host.run(script("echo on")).stdout == b"on\n"
            freeze(server.sessions())
            started_s = time.monotonic()
            with pytest.raises(UnreachableError, match="was lost: no answer for") as caught:
                host.run(script("sleep 60"), timeout_s=60)
            assert time.monotonic() - started_s < 8
            assert caught.value.code == "connection-lost"
            with pytest.raises(UnreachableError, match="was lost"):
                host.run(script("true"))

    def test_a_frozen_host_is_noticed_while_files_go(self, start_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
        server = start_sshd()
        (tmp_path / "source").write_bytes(bytes(50_000_000))

        def stop_it(_done: int, _total: int) -> None:
            freeze(server.sessions())

        with (
            SshHost(server.target, beat_s=0.5, silence_s=1) as host,
            pytest.raises(UnreachableError, match="was lost: no answer for"),
        ):
            host.put(tmp_path / "source", f"{tmp_path}/copy", mode=0o600, progress=stop_it)

    def test_a_dead_link_is_noticed_within_a_minute(self) -> None:
        assert connection.BEAT_S + connection.SILENCE_S < 60

    @pytest.mark.parametrize("what", ["run", "stream"])
    def test_a_connection_that_is_cut(self, start_sshd: Callable[..., Sshd], what: str) -> None:
        server = start_sshd()
        mark = seconds()
        with open_host(server.target) as host:

            def cut() -> None:
                wait_until_running(mark)
                for process in server.sessions():
                    process.kill()

            threading.Thread(target=cut, daemon=True).start()
            with pytest.raises(UnreachableError, match=r"the connection to .* was lost"):
                host.run(script(f"sleep {mark}")) if what == "run" else list(host.stream(script(f"sleep {mark}")))
        wait_until_gone(mark)

    def test_the_host_bounds_a_script_by_itself(self, ssh_host: Host) -> None:
        parent = ssh_host.run(script("tr '\\0' ' ' </proc/$PPID/cmdline"), timeout_s=33.3).out
        assert parent == "timeout -k 5 39 /bin/sh -s "

    def test_a_closed_host_says_so(self, ssh_host: Host) -> None:
        ssh_host.close()
        with pytest.raises(UnreachableError, match="was lost"):
            ssh_host.run(script("true"))

    def test_many_commands_use_one_connection_and_leave_nothing_open(self, ssh_host: Host) -> None:
        for _ in range(3):
            ssh_host.run(script("true"))
        before = psutil.Process().num_fds()
        addresses = {ssh_host.run(script("echo $SSH_CONNECTION")).out for _ in range(10)}
        assert len(addresses) == 1
        assert psutil.Process().num_fds() == before


class TestDemoHost:
    def test_it_ends_with_its_parent(self, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from cuzkops.demohost import DemoHost;"
            "print(DemoHost(Path(sys.argv[1])).start().pid, flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "demo")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout
            demo = psutil.Process(int(parent.stdout.readline()))
            parent.kill()
        demo.wait(10)

    def test_stop_ends_it_and_start_again_keeps_its_key(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        mark = seconds()
        with DemoHost(tmp_path / "demo") as demo:
            for name, value in demo.env.items():
                monkeypatch.setenv(name, value)
            with open_host(demo.target) as host:
                host.run(script(f"setsid sleep {mark} </dev/null >/dev/null 2>&1 &"))
                assert host.run(script("pwd; echo ~")).out.split() == [str(demo.home)] * 2
            key = (tmp_path / "demo" / "hostkey.pub").read_bytes()
            process = psutil.Process(demo.pid)
        assert not process.is_running()
        demo.stop()
        (detached,) = processes_with(mark)
        detached.kill()
        with DemoHost(tmp_path / "demo") as again, open_host(again.target) as host:
            assert host.run(script("echo on")).stdout == b"on\n"
        assert (tmp_path / "demo" / "hostkey.pub").read_bytes() == key

    def test_sigterm_ends_it(self, tmp_path: Path) -> None:
        with DemoHost(tmp_path / "demo") as demo:
            process = psutil.Process(demo.pid)
            process.terminate()
            process.wait(10)

    def test_why_it_did_not_start(self, tmp_path: Path) -> None:
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "home").write_text("in the way")
        with pytest.raises(OpsError, match=r"the demo host did not start: .*File exists"):
            DemoHost(tmp_path / "demo").start()

    def test_only_its_own_key_gets_in(
        self, demo_host: DemoHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make_key(tmp_path / "other")
        write_ssh_config(tmp_path / "config", tmp_path / "other")
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UnreachableError, match="did not let"):
            open_host(demo_host.target)
