from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.errors import OpsError, TimeoutExpired, UnreadableError
from cuzkops.remote.host import Completed
from cuzkops.remote.local import LocalHost
from cuzkops.remote.log_files import (
    clock_script,
    ends_of,
    ends_script,
    list_paths_script,
    list_script,
    parse_list,
)
from cuzkops.state import State
from cuzkops.steps.collect import CollectResult, collect, keep_peaks, newest_launch
from cuzkops.steps.follow import follow, follow_script
from cuzkops.timing.read import read_table

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout

HEADER = b"HEADER run=r t_ns=1 event=run\n"


@pytest.fixture
def logs(layout: Layout) -> Path:
    folder = Path(layout.logs)
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    return tmp_path / "copies"


def visible(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")}


def test_logs_come_piece_by_piece(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    (logs / "r.err").write_bytes(b"")
    (logs / "r2.log").write_bytes(b"another launch")
    first = collect(host, layout, copies, launch_id="r")
    assert [(file.name, file.new_bytes) for file in first.files] == [("r.log", len(HEADER)), ("r.err", 0)]
    with (logs / "r.log").open("ab") as log:
        log.write(b"\xff\xfe not UTF-8\n")
    second = collect(host, layout, copies, launch_id="r")
    assert [(file.new_bytes, file.total_bytes) for file in second.files] == [(13, len(HEADER) + 13), (0, 0)]
    assert visible(copies) == {"r.log": HEADER + b"\xff\xfe not UTF-8\n", "r.err": b""}
    assert collect(host, layout, copies, launch_id="r").notices == ()
    assert (copies / "r.log").stat().st_mode & 0o077 == 0


def test_a_rotated_log_is_finished_under_its_new_name(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER + b"one\n")
    (logs / "r.log.1").write_bytes(HEADER + b"zero\n")
    collect(host, layout, copies)
    with (logs / "r.log").open("ab") as log:
        log.write(b"two\n")
    (logs / "r.log.1").rename(logs / "r.log.2")
    (logs / "r.log").rename(logs / "r.log.1")
    (logs / "r.log").write_bytes(HEADER + b"three\n")
    result = collect(host, layout, copies)
    assert visible(copies) == {
        "r.log": HEADER + b"three\n",
        "r.log.1": HEADER + b"one\ntwo\n",
        "r.log.2": HEADER + b"zero\n",
    }
    assert set(result.notices) == {"r.log was rotated to r.log.1", "r.log.1 was rotated to r.log.2"}


def test_a_truncated_log_is_noticed_and_nothing_is_lost(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER + b"a long story\n")
    collect(host, layout, copies)
    os.truncate(logs / "r.log", 0)
    (logs / "r.log").write_bytes(b"HEADER new\n")
    result = collect(host, layout, copies)
    assert result.notices == ("r.log was truncated on the host: the 43 bytes before are in r.log.before-1",)
    assert visible(copies) == {"r.log": b"HEADER new\n", "r.log.before-1": HEADER + b"a long story\n"}


def test_another_file_under_the_same_inode_is_noticed(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    collect(host, layout, copies)
    (logs / "r.log").write_bytes(b"HEADER run=other t_ns=2 event=run\nlonger than before\n")  # the same inode
    collect(host, layout, copies)
    assert visible(copies) == {"r.log": (logs / "r.log").read_bytes(), "r.log.before-1": HEADER}


def test_a_log_that_was_cut_and_has_grown_again_is_noticed_by_its_end(
    host: Host, layout: Layout, logs: Path, copies: Path
) -> None:
    (logs / "r.err").write_bytes(b"the same first line\n" + b"one\n" * 5000)
    collect(host, layout, copies)
    (logs / "r.err").write_bytes(b"the same first line\n" + b"two\n" * 9000)  # the same inode and head, and longer
    result = collect(host, layout, copies)
    assert result.notices == ("r.err was truncated on the host: the 20020 bytes before are in r.err.before-1",)
    assert (copies / "r.err").read_bytes() == (logs / "r.err").read_bytes()
    assert collect(host, layout, copies).notices == ()


def test_what_is_known_of_each_copy_is_kept_beside_it(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    collect(host, layout, copies)
    seen = json.loads((copies / ".collected.json").read_text())["files"]["r.log"]
    digest = hashlib.sha256(HEADER * 2).hexdigest()  # both ends of a short file are all of it
    assert seen == {"inode": (logs / "r.log").stat().st_ino, "offset": len(HEADER), "ends": digest}


def test_a_copy_of_which_nothing_is_known_is_compared_before_it_is_continued(
    host: Host, layout: Layout, logs: Path, copies: Path
) -> None:
    (logs / "r.log").write_bytes(HEADER + b"one\n")
    copies.mkdir()
    (copies / "r.log").write_bytes(b"of another host\n")
    collect(host, layout, copies)
    assert visible(copies) == {"r.log": HEADER + b"one\n", "r.log.before-1": b"of another host\n"}


def test_what_went_away_on_the_host_stays_here(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    (logs / "r.err").write_bytes(b"words\n")
    collect(host, layout, copies)
    (logs / "r.err").unlink()
    collect(host, layout, copies)
    assert visible(copies) == {"r.log": HEADER, "r.err": b"words\n"}


def test_the_newest_launch_is_the_default(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    for name, age_s in (("old.log", 50), ("new.1.log", 0)):
        (logs / name).write_bytes(HEADER)
        os.utime(logs / name, (time.time() - age_s,) * 2)
    assert collect(host, layout, copies).launch_id == "new.1"


def test_no_logs_is_one_sentence(host: Host, layout: Layout, copies: Path) -> None:
    with pytest.raises(OpsError, match="daemon prover has no logs in"):
        collect(host, layout, copies)
    assert not copies.exists()


class Hostile(LocalHost):
    """A host that prints what it likes, and whose files hold what somebody here would like to lose."""

    def __init__(self, *names: str, launch_id: str = "r") -> None:
        super().__init__()
        lines = [f"file 1 9 {'0' * 64} {name}" for name in names]
        self._listed = "\n".join([f"launch {launch_id}", *lines, ""]).encode()

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        del timeout_s
        return Completed(script, 0, self._listed, b"")

    def get(
        self, source: str, destination: Path, *, offset: int = 0, progress: Callable[[int], None] | None = None
    ) -> int:
        del source, offset, progress
        with destination.open("ab") as file:
            return file.write(b"ssh-rsa A")


@pytest.mark.parametrize(
    "name", ["../victim", "r.log/../../victim", "/{folder}/victim", ".collected.json", "..", "-rf", "r.log\t", "r log"]
)
def test_a_host_writes_nowhere_but_to_its_logs(tmp_path: Path, layout: Layout, copies: Path, name: str) -> None:
    (tmp_path / "victim").write_bytes(b"mine\n")
    copies.mkdir()
    with Hostile(name.replace("/{folder}", str(tmp_path)), "r.log") as host:
        result = collect(host, layout, copies)
    assert (tmp_path / "victim").read_bytes() == b"mine\n"
    assert visible(copies) == {"r.log": b"ssh-rsa A"}
    assert [notice.partition(":")[0] for notice in result.notices] == ["left on the host"]


def test_what_was_noted_under_a_strange_name_is_not_followed(tmp_path: Path, layout: Layout, copies: Path) -> None:
    (tmp_path / "victim").write_bytes(b"mine")
    copies.mkdir()
    (copies / ".collected.json").write_text('{"files": {"../victim": {"inode": 1, "offset": 4, "ends": ""}}}')
    with Hostile("r.log") as host:
        collect(host, layout, copies)
    assert (tmp_path / "victim").read_bytes() == b"mine"


@pytest.mark.parametrize("launch_id", ["../../x", "a/b", "..", ".hidden", "x" * 200])
def test_a_launch_that_is_no_name_is_refused(layout: Layout, launch_id: str) -> None:
    with Hostile("r.log", launch_id=launch_id) as host, pytest.raises(UnreadableError, match="which is no name"):
        newest_launch(host, layout)


def test_a_log_names_no_folder_of_ours(tmp_path: Path) -> None:
    state = State(tmp_path / "state")
    run = state.new_run()
    (tmp_path / "state" / "run.json").write_text("not a record of a run")
    log = tmp_path / "r.log"
    lines = [
        f"DAEMON run={name} t_ns=9 event=stopped uptime_us=5 peak_rss_bytes=7\n"
        for name in ("..", run.run_id, "a/../..")
    ]
    log.write_text("".join(lines))
    keep_peaks(state, read_table([log]))
    assert not (run.path / "run.json").exists()
    with pytest.raises(UnreadableError, match="is not the id of a run"):
        state.run("..")


class Slow(LocalHost):
    """A host whose files come slowly."""

    def get(
        self, source: str, destination: Path, *, offset: int = 0, progress: Callable[[int], None] | None = None
    ) -> int:
        time.sleep(0.3)
        return super().get(source, destination, offset=offset, progress=progress)


def test_two_at_once_copy_a_log_once(layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    with Slow() as one, Slow() as two:
        threads = [threading.Thread(target=collect, args=(host, layout, copies)) for host in (one, two)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert visible(copies) == {"r.log": HEADER}


def test_a_folder_that_another_command_holds_is_given_up(
    host: Host, layout: Layout, logs: Path, copies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuzkops.steps.collect._LOCK_DEADLINE_S", 0.2)
    (logs / "r.log").write_bytes(HEADER)
    copies.mkdir()
    with (copies / ".collecting").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TimeoutExpired, match="another cuzkops"):
            collect(host, layout, copies)


def test_a_folder_that_takes_nothing_is_one_sentence(host: Host, layout: Layout, logs: Path, tmp_path: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    (tmp_path / "file").write_text("")
    with pytest.raises(OpsError, match="cannot be written: Not a directory"):
        collect(host, layout, tmp_path / "file" / "logs")


class Reader:
    """Reads a followed log in a thread, as a terminal would."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self.lines: list[bytes] = []
        self._thread = threading.Thread(target=self._read, args=(lines,))
        self._thread.start()

    def _read(self, lines: Iterator[bytes]) -> None:
        self.lines.extend(lines)

    def wait_for(self, *lines: bytes) -> None:
        deadline = time.monotonic() + 10
        while self.lines != list(lines) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert self.lines == list(lines)

    def join(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()


@pytest.fixture
def writer() -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Stand for the daemon: a process whose end ends the stream."""
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
        yield process, ticks
        process.kill()


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as log:
        log.write(text)


def test_a_log_is_followed_through_rotation_and_truncation_to_the_daemons_end(
    host: Host, layout: Layout, logs: Path, writer: tuple[subprocess.Popen[bytes], int]
) -> None:
    process, ticks = writer
    log = logs / "r.log"
    log.write_bytes(b"zero\none\n")
    notices: list[str] = []
    reader = Reader(
        follow(host, layout, log=str(log), process=(process.pid, ticks), lines_back=1, on_notice=notices.append)
    )
    reader.wait_for(b"one")
    append(log, b"two\nhalf a ")
    reader.wait_for(b"one", b"two")
    append(log, b"line\n")
    reader.wait_for(b"one", b"two", b"half a line")
    log.rename(logs / "r.log.1")
    append(logs / "r.log.1", b"last of the old\n")
    log.write_bytes(b"first of the new, which is longer\n")
    reader.wait_for(b"one", b"two", b"half a line", b"last of the old", b"first of the new, which is longer")
    os.truncate(log, 0)
    deadline = time.monotonic() + 10
    while len(notices) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    append(log, b"after\nunfinished")
    process.kill()
    process.wait()
    reader.join()
    assert reader.lines[-2:] == [b"after", b"unfinished"]
    assert [text.rpartition(" was ")[2].partition(":")[0] for text in notices] == [
        "rotated",
        "truncated",
        "the daemon ended",
    ]


def test_a_line_with_the_byte_of_our_words_comes_whole(host: Host, layout: Layout, logs: Path) -> None:
    (logs / "r.log").write_bytes(b"a\x01b\nc\n")
    with closing(follow(host, layout, log=str(logs / "r.log"))) as lines:  # type: ignore[type-var] # a generator
        assert [next(lines), next(lines)] == [b"a\x01b", b"c"]


@pytest.mark.parametrize("state", [b"[]", b"3", b'{"r.log": null}', b"\xff", b'{"files": {"r.log": 1}}'])
def test_damaged_state_is_as_good_as_none(host: Host, layout: Layout, logs: Path, copies: Path, state: bytes) -> None:
    (logs / "r.log").write_bytes(b"one\n")
    copies.mkdir()
    (copies / ".collected.json").write_bytes(state)
    assert collect(host, layout, copies).files[0].new_bytes == 4


def test_closing_the_iterator_ends_the_script(host: Host, layout: Layout, logs: Path) -> None:
    (logs / "r.log").write_bytes(b"one\n")
    with closing(follow(host, layout, log=str(logs / "r.log"))) as lines:  # type: ignore[type-var] # a generator
        assert next(lines) == b"one"


def test_a_log_that_is_not_there_cannot_be_followed(host: Host, layout: Layout, logs: Path) -> None:
    with pytest.raises(OpsError, match=r"there is no log .*r\.log"):
        list(follow(host, layout, log=str(logs / "r.log")))


@pytest.mark.parametrize("shell", [["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"]], ids=lambda s: s[0])
def test_the_scripts_run_in_every_shell(layout: Layout, logs: Path, shell: list[str]) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    (logs / "r.log").write_bytes(b"zero\none\n")

    def run(text: str) -> bytes:
        return subprocess.run([*shell, "-s"], input=text.encode(), capture_output=True, check=True, timeout=20).stdout

    inode = (logs / "r.log").stat().st_ino
    assert run(list_script(layout, None).text).startswith(f"launch r\nfile {inode} 9 ".encode())
    listed = run(list_paths_script({"0-r.log": str(logs / "r.log"), "1-gone": "/gone"}).text).decode()
    assert [file.name for file in parse_list(listed)[1]] == ["0-r.log"]
    assert run(ends_script([(str(logs / "r.log"), 9)]).text).decode().strip() == ends_of(logs / "r.log")
    assert run(clock_script().text).strip().isdigit()
    gone = follow_script(layout, str(logs / "r.log"), (2**22 + 1, 1), 1)
    assert run(gone.text) == b"one\n\x01ended\n"
    nothing_old = follow_script(layout, str(logs / "r.log"), (2**22 + 1, 1), 0)
    assert run(nothing_old.text) == b"\x01ended\n"


def test_it_is_shown_how_far_a_copy_is(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.log").write_bytes(HEADER)
    collect(host, layout, copies)
    append(logs / "r.log", b"x" * 300_000)
    far: list[tuple[str, int, int]] = []
    collect(host, layout, copies, progress=lambda *how: far.append(how))
    total = len(HEADER) + 300_000
    assert far[-1] == ("r.log", total, total)
    assert all(len(HEADER) <= done <= total for _, done, _ in far)
    assert [done for _, done, _ in far] == sorted(done for _, done, _ in far)


def test_a_result_names_its_files(host: Host, layout: Layout, logs: Path, copies: Path) -> None:
    (logs / "r.err").write_bytes(b"x")
    (logs / "r.log").write_bytes(HEADER)
    result = collect(host, layout, copies)
    assert isinstance(result, CollectResult)
    assert [file.path for file in result.files] == [copies / "r.log", copies / "r.err"]
