"""What only SSH can get wrong: host keys, logins, login shells, and hosts that vanish."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from peer_sshd import (
    Sshd,
    freeze,
    make_key,
    processes_with,
    script,
    seconds,
    wait_until_gone,
    wait_until_running,
    write_ssh_config,
)

from cuzkops.demohost import DemoHost
from cuzkops.errors import OpsError, TimeoutExpired, UnreachableError, UsageError
from cuzkops.remote import connection
from cuzkops.remote.connection import SshHost
from cuzkops.remote.login import Access
from cuzkops.remote.opening import open_host
from cuzkops.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuzkops.remote.host import Host

pytestmark = pytest.mark.peers


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

    @pytest.mark.parametrize("name", ["a" * 300, "a..b"])
    def test_what_cannot_be_the_name_of_a_host(self, name: str) -> None:
        with pytest.raises(UnreachableError, match="no address is known for the host a"):
            open_host(Target(name))

    def test_a_file_that_is_no_private_key(self, sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "key").write_text("garbage\n")
        with pytest.raises(UsageError, match="key is not a private key in a format of OpenSSH"):
            open_host(sshd.target, Access(tmp_path / "key"))
        (tmp_path / "key").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\ngarbage\n")
        with pytest.raises(UsageError, match=rf"a private key for .* cannot be used: .*; named were: {tmp_path}/key"):
            open_host(sshd.target, Access(tmp_path / "key"))
        with pytest.raises(UsageError, match="is not a file that can be read"):
            open_host(sshd.target, Access(tmp_path))
        write_ssh_config(tmp_path / "config", tmp_path)
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UnreachableError, match="offered: no key at all") as caught:
            open_host(sshd.target)
        assert "-i FILE" in caught.value.hint

    def test_jump_hosts_in_a_circle(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "config").write_text("Host a\n    HostName b\n    ProxyJump a\nHost *\n    ProxyJump a\n")
        monkeypatch.setenv("CUZKOPS_SSH_CONFIG", str(tmp_path / "config"))
        with pytest.raises(UsageError, match="config cannot be used for a: "):
            open_host(Target("a"))

    def test_known_hosts_of_nobody(self, sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUZKOPS_KNOWN_HOSTS", "~nobody-here/known_hosts")
        with pytest.raises(UsageError, match="no home folder is known for ~nobody-here"):
            open_host(sshd.target)

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
        process = psutil.Process(server.pid)
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
        assert psutil.Process().num_fds() <= before + 2


class TestDemoHost:
    def test_it_ends_with_its_parent(self, tmp_path: Path) -> None:
        code = (
            "import sys; from pathlib import Path; from cuzkops.demohost import DemoHost;"
            "print(DemoHost(Path(sys.argv[1])).start().pid, flush=True); sys.stdin.read()"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "demo")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
            assert parent.stdout
            assert parent.stdout.readline().strip().isdigit()
            parent.kill()
        wait_until_gone(str(tmp_path / "demo"))  # or a zombie that nobody reaps, as in a container

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
