"""``cuzkops logs`` of an adopted process, and by time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuzkops import cli
from cuzkops.errors import UnreadableError, UsageError
from cuzkops.remote.layout import Layout
from cuzkops.steps.adopt import adopt
from cuzkops.timing.parse import parse_file
from cuzkops.timing.read import read_table
from cuzkops.timing.since import lines_since, parse_instant, timeline_since
from cuzkops.timing.spans import build_timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.remote.host import Host

DATA = Path(__file__).parents[1] / "data" / "timelines"
LOG = DATA / "two-circuits.log"
BEGIN_NS = 1796000001000000000  # of that log: its header, at t_ns 1 s
SECOND_NS = 10**9


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    return ["local", "--remote-dir", str(tmp_path / "remote dir")]


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    status = cli.run([*words, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


@pytest.fixture
def by_hand(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with its output in a file."""
    with (
        (tmp_path / "my out.log").open("wb") as out,
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdout=out, stderr=out) as process,
    ):
        yield process
        process.kill()


def test_an_adopted_process_without_a_log_says_so(
    host: Host, layout: Layout, place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            adopt(host, layout, process.pid)
            for words in ((), ("--parse",), ("--lines", "3")):
                status, document, _ = run(capsys, "logs", *place, *words)
                assert (status, document["error"]["code"]) == (2, "no-logs")
                message = f"pid {process.pid}, which was adopted as prover on local, writes no log to a file"
                assert document["error"]["message"] == message
        finally:
            process.kill()


def test_the_log_of_an_adopted_process_comes_piece_by_piece(
    host: Host,
    place: list[str],
    by_hand: subprocess.Popen[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = tmp_path / "my out.log"
    log.write_text("one\n")
    record = adopt(host, Layout(str(tmp_path / "remote dir"), "prover"), by_hand.pid)
    assert record.logs == [str(log)]
    status, document, _ = run(capsys, "logs", *place)
    assert (status, document["lines"]) == (0, ["one"])
    [copy] = document["files"]
    assert copy.endswith("/0-my_out.log")
    inode = Path(copy).stat().st_ino
    with log.open("a") as file:
        file.write("two\n")
    assert run(capsys, "logs", *place)[1]["lines"] == ["one", "two"]
    assert Path(copy).stat().st_ino == inode, "the copy was continued, not made again"
    log.write_text("three\n")
    status, document, err = run(capsys, "logs", *place)
    assert document["lines"] == ["three"]
    assert "0-my_out.log was truncated on the host: the 8 bytes before are in 0-my_out.log.before-1" in err
    log.unlink()
    status, document, _ = run(capsys, "logs", *place)
    assert (status, document["error"]["code"]) == (1, "no-logs")
    assert "are no longer on local" in document["error"]["message"]


def test_a_table_of_the_last_lines_is_refused(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, document, _ = run(capsys, "logs", *place, "--parse", "--lines", "5")
    assert (status, document["error"]["code"]) == (2, "lines-with-parse")
    status, document, _ = run(capsys, "logs", *place, "--follow", "--lines", "5", "--since", "1m")
    assert (status, document["error"]["code"]) == (2, "lines-with-since")


def test_a_time_is_a_duration_before_now_or_an_instant_with_its_zone() -> None:
    assert parse_instant("1.5m", 100 * SECOND_NS) == 10 * SECOND_NS
    assert parse_instant("2026-11-29T22:00:00Z", 0) == parse_instant("2026-11-29T23:00:00+01:00", 0)
    assert parse_instant("1970-01-01T00:00:01.5Z", 0) == 1_500_000_000
    wrong = {"2026-11-29T22:00:00": "has no time zone", "2026-13-01T00:00:00Z": "is not a time", "x": "not a duration"}
    for text, why in wrong.items():
        with pytest.raises(UsageError, match=why):
            parse_instant(text, 0)


def test_a_wrong_time_is_refused_before_the_host_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["logs", "nobody@203.0.113.1", "--since", "yesterday"]) == 2
    assert "'yesterday' is not a duration" in capsys.readouterr().err


def test_lines_since_an_instant_by_the_clock_of_the_header() -> None:
    lines = lines_of(LOG)
    assert list(lines_since(lines, BEGIN_NS)) == lines
    assert list(lines_since(lines, BEGIN_NS + 3600 * SECOND_NS)) == []
    later = list(lines_since(lines, BEGIN_NS + SECOND_NS // 2))  # from t_ns 1.5 s on
    assert 0 < len(later) < len(lines)
    assert later == [line for line in lines if int(line.partition(b" t_ns=")[2].split()[0]) >= 1_500_000_000]


def test_a_line_without_a_time_goes_with_the_one_before_it() -> None:
    header, *rest = lines_of(LOG)
    mixed = [b"before all", header, b"noise", *rest, b"the end"]
    assert list(lines_since(mixed, BEGIN_NS)) == mixed[1:]
    assert list(lines_since([], BEGIN_NS)) == []
    with pytest.raises(UnreadableError, match="none of 2 lines of the log can be placed in time"):
        list(lines_since([b"one", b"two"], BEGIN_NS))


def test_a_table_since_an_instant_counts_what_ended_since_and_knows_the_warm_up() -> None:
    whole = read_table([LOG])
    assert read_table([LOG], BEGIN_NS) == whole
    late = read_table([LOG], BEGIN_NS + 4 * SECOND_NS)
    [run_whole], [run_late] = whole.runs, late.runs
    counted = [{row.phase: row.n for row in circuit.rows} for run in (run_whole, run_late) for circuit in run.circuits]
    assert sum(row.get("partition", 0) for row in counted[: len(run_whole.circuits)]) > sum(
        row.get("partition", 0) for row in counted[len(run_whole.circuits) :]
    )
    # What came first in the whole run stays the warm-up: nothing that was warm takes its place.
    assert all(row.warm_up_ns is None for circuit in run_late.circuits for row in circuit.rows)
    assert run_late.load_ns == run_whole.load_ns


def test_runs_that_were_over_by_then_and_those_without_a_header_are_left_out(tmp_path: Path) -> None:
    timeline = build_timeline(parse_file(DATA / "rotated-and-restarted.log"))
    assert len(timeline.runs) > 1
    later = timeline_since(timeline, BEGIN_NS)  # the second run of that log ended before, by its own header
    assert [run.header for run in later.runs] == [timeline.runs[0].header]
    headless = tmp_path / "headless.log"
    headless.write_bytes(b"\n".join(line for line in lines_of(LOG) if not line.startswith(b"HEADER")) + b"\n")
    with pytest.raises(UnreadableError, match="none of 1 runs of the log can be placed in time"):
        read_table([headless], BEGIN_NS)


def test_the_prose_of_the_daemon_is_shown(place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = Path(Layout(str(tmp_path / "remote dir"), "prover").logs)
    logs.mkdir(parents=True)
    for name, text in (("run-1.log", LOG.read_text()), ("run-1.out", "out\n"), ("run-1.err", "warning: a\nerror: b\n")):
        (logs / name).write_text(text)
    assert run(capsys, "logs", *place, "--prose")[1]["lines"] == ["out", "warning: a", "error: b"]
    assert run(capsys, "logs", *place, "--prose", "--lines", "1")[1]["lines"] == ["error: b"]
    for other in ("--parse", "--follow", "--since=1m"):
        status, document, _ = run(capsys, "logs", *place, "--prose", other)
        assert (status, document["error"]["code"]) == (2, "prose")


def test_the_command_shows_what_was_written_since(
    host: Host,
    place: list[str],
    by_hand: subprocess.Popen[bytes],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now_ns = time.time_ns()
    text = LOG.read_text().replace(str(BEGIN_NS), str(now_ns - 3600 * SECOND_NS))  # an hour ago
    (tmp_path / "my out.log").write_text(text)
    adopt(host, Layout(str(tmp_path / "remote dir"), "prover"), by_hand.pid)
    assert run(capsys, "logs", *place, "--since", "1m")[1]["lines"] == []
    assert len(run(capsys, "logs", *place, "--since", "2h")[1]["lines"]) == len(text.splitlines())
    assert run(capsys, "logs", *place, "--since", "2h", "--lines", "2")[1]["lines"] == text.splitlines()[-2:]
    status, document, _ = run(capsys, "logs", *place, "--since", "1m", "--parse")
    assert (status, document["runs"]) == (0, [])
    status, document, _ = run(capsys, "logs", *place, "--since", "2h", "--parse")
    assert (status, len(document["runs"])) == (0, 1)
