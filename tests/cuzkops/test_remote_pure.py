"""The parts of the way to a host that need no host: known_hosts, envelope, lines, layouts, audit entries."""

from __future__ import annotations

import base64
import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.errors import OpsError, TimeoutExpired, UnreachableError, UsageError
from cuzkops.remote import audit, envelope, hostkeys, opening, transfer
from cuzkops.remote.host import Completed, Script
from cuzkops.remote.hostkeys import KnownHosts, Policy
from cuzkops.remote.layout import Layout
from cuzkops.remote.lines import LONGEST_BYTES, LineSplitter
from cuzkops.remote.local import LocalHost
from cuzkops.remote.login import identities, known_hosts
from cuzkops.remote.shell import ShellHost
from cuzkops.target import Target

if TYPE_CHECKING:
    from cuzkops.remote.channel import Channel

ED = "ssh-ed25519"
ONE, TWO = b"\x00\x00\x00\x0bssh-ed25519 one", b"\x00\x00\x00\x0bssh-ed25519 two"


def line(hosts: str, key: bytes = ONE, key_type: str = ED) -> str:
    return f"{hosts} {key_type} {base64.b64encode(key).decode()}"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ssh" / "known_hosts"


def known(file: Path, *lines: str, policy: Policy = Policy.ACCEPT_NEW) -> KnownHosts:
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(f"{text}\n" for text in lines))
    return KnownHosts([file], policy)


@pytest.mark.parametrize(
    ("hosts", "port"),
    [
        ("gpu1", 22),
        ("other,gpu1,10.0.0.7", 22),
        ("GPU1", 22),
        ("gpu?", 22),
        ("g*,!gpu2", 22),
        ("[gpu1]:2222", 2222),
        ("[gpu*]:2222", 2222),
        ("gpu1", 2222),  # as ssh does: a key that is known without the port is the same host
    ],
)
def test_a_known_key_is_accepted_without_a_word(file: Path, hosts: str, port: int) -> None:
    assert known(file, line(hosts), policy=Policy.STRICT).check("gpu1", port, ED, ONE) == ""


@pytest.mark.parametrize("hosts", ["gpu2", "[gpu1]:2222", "g*,!gpu1", "|1|AAAA|BBBB", "|1|x", "[g]pu1"])
def test_a_line_about_another_host_says_nothing(file: Path, hosts: str) -> None:
    with pytest.raises(UnreachableError) as caught:
        known(file, line(hosts), policy=Policy.STRICT).check("gpu1", 22, ED, ONE)
    assert caught.value.code == "host-key-unknown"
    assert hostkeys.fingerprint(ONE) in caught.value.message
    assert str(file) in caught.value.message


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")
def test_hashed_names_and_fingerprints_are_those_of_openssh(file: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    key_type, encoded, *_ = (tmp_path / "key.pub").read_text().split()
    key = base64.b64decode(encoded)
    known(file, line("[gpu1]:2222", key))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", file], check=True, capture_output=True)
    assert file.read_text().startswith("|1|")
    assert KnownHosts([file], Policy.STRICT).check("gpu1", 2222, key_type, key) == ""
    listed = subprocess.run(["ssh-keygen", "-l", "-f", tmp_path / "key"], check=True, capture_output=True, text=True)
    assert hostkeys.fingerprint(key) in listed.stdout


@pytest.mark.parametrize("policy", list(Policy))
def test_a_changed_key_is_refused_by_every_policy(file: Path, policy: Policy) -> None:
    with pytest.raises(UnreachableError) as caught:
        known(file, "# a comment", line("[gpu1]:2222"), policy=policy).check("gpu1", 2222, ED, TWO)
    error = caught.value
    assert error.code == "host-key-changed"
    assert error.exit_status == 3
    for part in (f"{file} line 2", hostkeys.fingerprint(ONE), hostkeys.fingerprint(TWO), "[gpu1]:2222"):
        assert part in error.message
    assert f"ssh-keygen -f {file} -R '[gpu1]:2222'" in error.hint


def test_commands_in_hints_are_words_for_a_shell(tmp_path: Path) -> None:
    file = tmp_path / "it's a folder" / "known_hosts"
    for lines, policy in (([line("gpu1", TWO)], Policy.ACCEPT_NEW), ([], Policy.STRICT)):
        with pytest.raises(UnreachableError) as caught:
            known(file, *lines, policy=policy).check("gpu1", 22, ED, ONE)
        assert str(file) in shlex.split(caught.value.hint.rpartition(": ")[2])


def test_a_key_of_another_type_where_one_is_known_is_a_changed_key(file: Path) -> None:
    with pytest.raises(UnreachableError) as caught:
        known(file, line("gpu1")).check("gpu1", 22, "ssh-rsa", TWO)
    assert caught.value.code == "host-key-changed"


def test_one_of_several_keys_is_enough(file: Path) -> None:
    hosts = known(file, line("gpu1", TWO), line("gpu1"))
    assert hosts.check("gpu1", 22, ED, ONE) == ""
    assert hosts.key_types("gpu1", 22) == [ED, ED]


def test_a_key_is_not_new_where_a_file_cannot_be_read(file: Path, tmp_path: Path) -> None:
    known(file, line("gpu1"))
    hosts = KnownHosts([file, tmp_path], Policy.ACCEPT_NEW)
    assert hosts.check("gpu1", 22, ED, ONE) == "", "it is known by the other file"
    with pytest.raises(UnreachableError, match=r"of gpu2 is new cannot be known: .*: Is a directory"):
        hosts.check("gpu2", 22, ED, TWO)
    assert "gpu2" not in file.read_text()


def test_a_revoked_key_is_refused_even_where_it_is_known(file: Path) -> None:
    with pytest.raises(UnreachableError) as caught:
        known(file, line("gpu1"), line("@revoked *")).check("gpu1", 22, ED, ONE)
    assert caught.value.code == "host-key-revoked"
    assert f"{file} line 2" in caught.value.message


def test_lines_that_cannot_be_read_do_not_matter(file: Path) -> None:
    bad = [
        "garbage",
        "gpu1 ssh-ed25519 %%%",
        "gpu1 ssh-ed25519 AAA",
        "@cert-authority * ssh-ed25519 AAAA",
        "@what gpu1 a b",
    ]
    hosts = known(file, *bad, line("@revoked gpu9"), line("gpu1"), policy=Policy.STRICT)
    assert hosts.check("gpu1", 22, ED, ONE) == ""
    file.write_bytes(b"\xff\xfe\x00 binary\n" + line("gpu1").encode() + b"\n")
    assert KnownHosts([file], Policy.STRICT).check("gpu1", 22, ED, ONE) == ""


def test_a_new_host_is_stored_once_and_said(tmp_path: Path) -> None:
    file = tmp_path / "new" / "known_hosts"
    said = KnownHosts([file], Policy.ACCEPT_NEW).check("gpu1", 2222, ED, ONE)
    assert hostkeys.fingerprint(ONE) in said
    assert str(file) in said
    assert file.read_text() == line("[gpu1]:2222") + "\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert KnownHosts([file], Policy.STRICT).check("gpu1", 2222, ED, ONE) == ""


def test_a_file_whose_last_line_has_no_end_is_not_spoilt(file: Path) -> None:
    known(file)
    file.write_text(line("gpu2"))
    KnownHosts([file], Policy.ACCEPT_NEW).check("gpu1", 22, ED, TWO)
    assert file.read_text().splitlines() == [line("gpu2"), line("gpu1", TWO)]


def test_a_file_that_cannot_be_written_is_said_and_does_not_stop(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = KnownHosts([tmp_path / "file" / "known_hosts"], Policy.ACCEPT_NEW).check("gpu1", 22, ED, ONE)
    assert "not stored" in said


def test_the_policy_comes_from_the_environment_then_from_ssh_config(
    monkeypatch: pytest.MonkeyPatch, file: Path
) -> None:
    monkeypatch.setenv("CUZKOPS_KNOWN_HOSTS", str(file))
    for careful in ("yes", "ask"):  # nobody is there to be asked
        with pytest.raises(UnreachableError):
            known_hosts({"stricthostkeychecking": careful}).check("gpu1", 22, ED, ONE)
    monkeypatch.setenv("CUZKOPS_HOST_KEYS", "accept-new")
    assert known_hosts({"stricthostkeychecking": "yes"}).check("gpu1", 22, ED, ONE)
    monkeypatch.setenv("CUZKOPS_HOST_KEYS", "off")
    with pytest.raises(UsageError, match="CUZKOPS_HOST_KEYS"):
        known_hosts({})


def test_only_identity_files_that_exist_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    assert identities({}) == []
    (tmp_path / ".ssh" / "id_ed25519").write_text("")
    assert identities({}) == [str(tmp_path / ".ssh" / "id_ed25519")]
    assert identities({"identityfile": [str(tmp_path / "missing")]}) == []


SHELLS = [
    pytest.param(shell, marks=pytest.mark.skipif(not shutil.which(shell[0]), reason=f"needs {shell[0]}"))
    for shell in (["/bin/sh"], ["dash"], ["bash", "--posix"], ["busybox", "sh"])
]


def test_a_local_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with LocalHost() as host, pytest.raises(OpsError, match=r"^/proc/self/mem cannot be read: Input/output error$"):
        host.put(Path("/proc/self/mem"), str(tmp_path / "copy"), mode=0o600)  # opens, and gives nothing


class _Deaf(ShellHost):
    """A host that takes no input."""

    def _start(self, command: str) -> Channel:
        del command
        return _DeafChannel()


class _DeafChannel:
    def send(self, data: bytes, *, timeout_s: float) -> None:  # noqa: ARG002 - the names belong to Channel
        raise TimeoutError

    def end_input(self) -> None: ...

    def receive(self, *, timeout_s: float) -> tuple[bytes, bytes] | None: ...

    def status(self, *, timeout_s: float) -> int:  # noqa: ARG002 - the same
        raise AssertionError

    def end(self) -> bool:
        return True


def test_a_host_that_takes_no_script_is_a_sentence() -> None:
    with _Deaf(Target("gpu1")) as host, pytest.raises(TimeoutExpired, match="look could not be sent for 60 s on gpu1"):
        host.run(Script("look", "true"))


@pytest.mark.parametrize("shell", SHELLS)
class TestEnvelope:
    """The envelope in each shell that may be ``/bin/sh`` somewhere."""

    def host(self, shell: list[str]) -> LocalHost:
        class Other(LocalHost):
            def _start(self, command: str) -> object:  # type: ignore[override]
                return super()._start(command.replace("/bin/sh", " ".join(shell)))

        return Other()

    def test_status_and_streams(self, shell: list[str]) -> None:
        with self.host(shell) as host:
            done = host.run(Script("t", "printf 'a\\0\\377'; echo err >&2; exit 7"))
        assert (done.status, done.stdout, done.stderr) == (7, b"a\x00\xff", b"err\n")

    def test_the_script_reads_nothing_and_may_hold_everything(self, shell: list[str]) -> None:
        body = "cat; case x in x) echo one ;; esac\ncat <<'END'\n$HOME ) {\nEND\ntrap 'echo bye' EXIT # comment"
        with self.host(shell) as host:
            done = host.run(Script("t", body), timeout_s=10)
        assert done.stdout == b"one\n$HOME ) {\nbye\n"
        assert (done.status, done.stderr) == (0, b"")

    def test_a_long_script_arrives_whole(self, shell: list[str]) -> None:
        body = "\n".join(f"echo {n}" for n in range(20_000))
        with self.host(shell) as host:
            done = host.run(Script("t", body))
        assert done.stdout.split() == [b"%d" % n for n in range(20_000)]

    def test_a_syntax_error_is_not_success(self, shell: list[str]) -> None:
        with self.host(shell) as host, pytest.raises(UnreachableError, match="did not start /bin/sh"):
            host.run(Script("t", "if then"))

    def test_ctrl_c_is_not_ignored_by_what_the_script_starts(self, shell: list[str]) -> None:
        with self.host(shell) as host:
            done = host.run(Script("t", "grep -E '^Sig(Ign|Blk)' /proc/self/status"))
        masks = {name: int(value, 16) for name, value in (row.split(":") for row in done.out.splitlines())}
        assert not masks["SigIgn"] & 0b110
        assert masks["SigBlk"] == 0

    def test_no_guard_is_left_after_the_script(self, shell: list[str]) -> None:
        with self.host(shell) as host:
            done = host.run(Script("t", "echo $$"))
            group = int(done.out)
            rest = host.run(
                Script(
                    "t", 'cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") [^Z] [0-9]* $group "', {"group": str(group)}
                )
            )
        assert rest.out == "0\n"

    def test_an_upload(self, shell: list[str], tmp_path: Path) -> None:
        source = tmp_path / "source"
        source.write_bytes(bytes(range(256)) * 3000)
        with self.host(shell) as host:
            host.put(source, str(tmp_path / "it's here"), mode=0o640)
        assert (tmp_path / "it's here").read_bytes() == source.read_bytes()
        assert (tmp_path / "it's here").stat().st_mode & 0o777 == 0o640


def test_what_came_before_the_marker_is_cut_off_wherever_it_is_split() -> None:
    data = b"Welcome!\nMARKERx\nMARKER\nMARKER\nown"
    for at in range(len(data) + 1):
        after = envelope.AfterMarker("MARKER")
        assert after.feed(data[:at]) + after.feed(data[at:]) == b"MARKER\nown"
        assert after.before is None


def test_lines_come_whole_wherever_the_data_is_split() -> None:
    data = b"one\n\ntw\xc3\xa9\r\nlast"
    for at in range(len(data) + 1):
        lines = LineSplitter()
        assert lines.feed(data[:at]) + lines.feed(data[at:]) == [b"one", b"", b"tw\xc3\xa9\r"]
        assert lines.rest() == [b"last"]
        assert lines.rest() == []


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    lines = LineSplitter()
    cut = lines.feed(b"x" * (2 * LONGEST_BYTES + 5))
    assert [len(part) for part in cut] == [LONGEST_BYTES, LONGEST_BYTES]
    assert lines.rest() == [b"xxxxx"]


def test_a_layout_is_absolute_wherever_it_was_said(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/o'ps")
    assert opening.resolve_layout(host) == Layout("/home/o'ps/.cuzkops", "prover")
    assert opening.resolve_layout(host, "~") == Layout("/home/o'ps", "prover")
    assert opening.resolve_layout(host, "rel/./x/", "p2") == Layout("/home/o'ps/rel/x", "p2")
    assert opening.resolve_layout(host, "//srv/../data/cuzk//") == Layout("/data/cuzk", "prover")


@pytest.mark.parametrize("remote_dir", ["", "/", "/srv/..", "~ann/x", "~~", "a\nb", "/a\x00b", "/a\x1b[1m"])
def test_a_folder_that_cannot_be_meant_is_refused(host: LocalHost, remote_dir: str) -> None:
    with pytest.raises(UsageError):
        opening.resolve_layout(host, remote_dir)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "-x", "a/b", "a b", "layers", "circuits", "lock", "audit.jsonl", "x" * 65]
)
def test_a_name_that_cannot_be_used_is_refused(host: LocalHost, name: str) -> None:
    with pytest.raises(UsageError):
        opening.resolve_layout(host, "/srv/cuzk", name)


def test_a_host_without_a_home_needs_an_absolute_folder(host: LocalHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    with pytest.raises(UsageError, match="no home folder"):
        opening.resolve_layout(host)
    assert opening.resolve_layout(host, "/srv/x").remote_dir == "/srv/x"


def test_every_change_is_one_line_of_the_audit_log(host: LocalHost, tmp_path: Path) -> None:
    layout = Layout(str(tmp_path / "new folder"), "prover")
    audit.append(host, layout, "ship", {"release": "r1", "user": "somebody else", "text": 'it\'s "two"\nlines \\n %s'})
    audit.append(host, layout, "kill")
    entries = [json.loads(text) for text in Path(layout.audit).read_text().splitlines()]
    assert [entry["action"] for entry in entries] == ["ship", "kill"]
    assert entries[0]["text"] == 'it\'s "two"\nlines \\n %s'
    assert entries[0]["user"] != "somebody else"
    assert all(entry["unix_ns"] > 1_700_000_000_000_000_000 for entry in entries)
    assert Path(layout.audit).stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("destination", ["", "relative", "/folder/"])
def test_an_upload_goes_to_an_absolute_path(destination: str) -> None:
    with pytest.raises(ValueError, match="absolute path"):
        transfer.put_script(destination, n_bytes=1, mode=0o644, part="x")


def test_a_failed_command_is_told_with_its_last_words() -> None:
    done = Completed(Script("unpack layer runtime", "x"), 2, b"", b"one\ntar: unexpected end\n")
    with pytest.raises(OpsError, match="unpack layer runtime ended with status 2: tar: unexpected end"):
        done.check()


def test_local_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UsageError, match="needs Linux, and this machine runs darwin"):
        LocalHost()


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("id_ops.pub", "ssh-ed25519 AAAA ops", "id_ops.pub is a public key", "name its private key: {folder}/id_ops"),
        ("notes.txt", "hello", "notes.txt is not a private key", "check --identity"),
        ("empty", "", "empty is not a private key", "check --identity"),
    ],
)
def test_a_file_that_is_no_private_key_is_refused_before_connecting(
    tmp_path: Path, name: str, content: str, message: str, hint: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=message) as caught:
        identities({}, tmp_path / name)
    assert caught.value.hint == hint.format(folder=tmp_path)


def test_a_private_key_and_a_certificate_are_offered(tmp_path: Path) -> None:
    for name, content in (("key", "-----BEGIN OPENSSH PRIVATE KEY-----\n"), ("key-cert.pub", "ssh-ed25519-cert AAAA")):
        (tmp_path / name).write_text(content)
        assert identities({}, tmp_path / name) == [str(tmp_path / name)]
