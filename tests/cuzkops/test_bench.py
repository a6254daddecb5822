"""``cuzkops bench`` on this machine, against the small daemon of the tests; what it measured is recorded."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stand_ins import recorded_kernel

from cuzkops import cli
from cuzkops.commands.bench import _Progress
from cuzkops.errors import OpsError
from cuzkops.remote.machine import parse_machine, read_machine
from cuzkops.rendering import Screen
from cuzkops.state import open_state
from cuzkops.steps.bench import BenchRequest, bench, bench_script

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost
    from cuzkops.steps.build import Artifact

GROTH16 = Path(__file__).parents[1] / "data" / "groth16" / "mul60"
WITNESS = GROTH16 / "witness.wtns"


@pytest.fixture
def place(
    tmp_path: Path, make_artifact: Callable[..., Artifact], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """A place with the small daemon running; it is stopped at the end."""
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)  # a host where nothing was killed: its window is not ours
    place = ["local", "--remote-dir", str(tmp_path / "remote dir")]
    artifact = str(make_artifact().directory)
    assert cli.run(["deploy", *place, "--artifact", artifact, "--circuit", f"mul60={GROTH16 / 'circuit.zkey'}"]) == 0
    yield place
    assert cli.run(["kill", *place, "--grace", "5s"]) == 0


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    status = cli.run([*words, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


@pytest.mark.peers
def test_a_bench_is_measured_on_the_host_and_recorded_with_what_it_was_made_of(
    place: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuzkops.rendering._REPEAT_S", 0.0)
    capsys.readouterr()
    status, document, err = run(capsys, "bench", "mul60", str(WITNESS), *place, "--jobs", "8", "--label", "first")
    assert status == 0
    assert "bench: measuring: 50 %, about " in err
    stored = open_state().run(document["run_id"]).read()
    assert stored.model_dump(mode="json", by_alias=True) == document
    assert (stored.kind, stored.label, stored.target) == ("bench", "first", "local")
    assert stored.bench is not None
    assert stored.bench.daemon is not None
    assert len(stored.bench.samples) == 8
    assert (stored.build_id, stored.release_id) == (stored.bench.daemon.build_id, stored.bench.daemon.release_id)
    assert stored.circuits == {"mul60": stored.bench.circuit_sha256}
    assert stored.machine is not None
    assert stored.machine.n_cpus >= 1
    assert stored.peak_bytes is not None
    assert stored.peak_bytes > 0
    status, again, _ = run(capsys, "bench", "mul60", str(WITNESS), *place, "--on-host", "--jobs", "8")
    assert (status, again["circuits"]) == (0, document["circuits"])
    status, found, _ = run(capsys, "runs", "compare", "previous", "last")
    assert (status, found["a"], found["b"]) == (0, document["run_id"], again["run_id"])
    assert found["differences"] == []


@pytest.mark.peers
def test_the_daemons_refusal_is_the_error_and_nothing_is_recorded(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    status, document, _ = run(capsys, "bench", "other", str(WITNESS), *place, "--jobs", "2")
    assert (status, document["error"]["code"]) == (1, "refused")
    assert document["error"]["message"] == "the bench failed: no circuit other"
    assert [run.read().kind for run in open_state().runs()] == ["deploy"]


def test_the_time_left_is_that_of_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 100.0, 400.0, 401.0, 411.0, 412.0])
    monkeypatch.setattr("cuzkops.commands.bench.time.monotonic", lambda: next(clock))
    shown: list[str] = []
    screen = Screen()
    monkeypatch.setattr(screen, "progress", shown.append)
    progress = _Progress(screen)
    for text in ("starting", "proving 0%", "proving 50% (300 s)", "verifying 0%", "verifying 50%", "verifying 100%"):
        progress.show(text)
    assert shown == [
        "bench: starting",
        "bench: proving 0%",
        "bench: proving 50% (300 s), about 5 min 00 s left",
        "bench: verifying 0%",
        "bench: verifying 50%, about 10 s left",
        "bench: verifying 100%",
    ]


def test_without_a_daemon_it_is_said_how_to_have_one(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    del layout
    words = ("bench", "mul60", str(WITNESS), "local", "--remote-dir", str(tmp_path / "remote dir"))
    status, document, _ = run(capsys, *words)
    assert (status, document["error"]["code"]) == (1, "not-deployed")


@pytest.mark.parametrize("words", [("gone.wtns",), ("relative.wtns", "--on-host")])
def test_a_witness_that_is_none_is_refused_before_the_host_is_asked(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "bench", "mul60", *words, "nobody@203.0.113.1")
    assert (status, document["error"]["code"]) == (2, "witness")


def write_prover(layout: Layout, body: str) -> None:
    """A release in use whose program is a script."""
    folder = Path(layout.current)
    folder.mkdir(parents=True)
    (folder / "prover").write_text(f"#!/bin/sh\n{body}\n")
    (folder / "prover").chmod(0o755)


REQUEST = BenchRequest("mul60", None, "/w.wtns", timeout_s=5)


@pytest.mark.parametrize(
    ("body", "status", "what"),
    [
        ('echo \'{"error": {"code": "timeout", "message": "the load did not end in time"}}\'; exit 1', 4, "in time"),
        ("echo 'usage: prover ctl' >&2; exit 2", 1, "status 2, and its answer cannot be read"),
        ("kill -9 $$", 1, "status 137"),
    ],
)
def test_an_answer_that_is_none_is_an_error_with_its_reason(
    host: LocalHost, layout: Layout, body: str, status: int, what: str
) -> None:
    write_prover(layout, f'[ "$2" = bench ] || {{ echo \'{{"ready": true, "state": "ready"}}\'; exit 0; }}\n{body}')
    with pytest.raises(OpsError, match=what) as failed:
        bench(host, layout, REQUEST, "r")
    assert failed.value.exit_status == status


def test_the_words_of_a_user_stay_words(layout: Layout) -> None:
    script = bench_script(layout, BenchRequest("$(id)", None, "/a b'c", n_jobs=3, timeout_s=1.5), None)
    assert "CIRCUIT='$(id)'" in script.text
    assert '--witness-path "$WITNESS" --jobs "$JOBS"' in script.text
    assert "--witness-path" not in bench_script(layout, REQUEST, "/run/w.wtns").text


@pytest.mark.parametrize("shell", [["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"]], ids=lambda s: s[0])
def test_the_script_runs_in_every_shell_and_leaves_nothing(layout: Layout, shell: list[str], tmp_path: Path) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    write_prover(layout, "echo 'half way: 50 %' >&2; echo '{}'; exit 3")
    (tmp_path / "tmp").mkdir()
    done = subprocess.run(
        [*shell, "-s"],
        input=bench_script(layout, REQUEST, None).text,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout == "said half way: 50 %\nstatus 3\n{}\n"
    assert list((tmp_path / "tmp").iterdir()) == []


def test_the_machine_is_read_without_anything_that_may_be_missing(host: LocalHost, tmp_path: Path) -> None:
    files = {
        "proc/cpuinfo": "processor : 0\nmodel name : Some CPU @ 2 GHz\nprocessor : 1\n",
        "proc/loadavg": "0.42 0.40 0.30 1/200 4711\n",
    }
    machine = read_machine(host, kernel=recorded_kernel(tmp_path / "k", files=files))
    assert (machine.cpu, machine.n_cpus, machine.load_1min) == ("Some CPU @ 2 GHz", 2, 0.42)
    assert (machine.memory_bytes, machine.thp) == (16000000 * 1024, "never")
    empty = parse_machine("")
    assert (empty.hostname, empty.n_cpus, empty.gpus, empty.driver) == ("", 0, [], "")
    assert machine.memory_limit_bytes is None
    group = {
        "sys/fs/cgroup/box/memory.max": f"{3 << 30}\n",
        "sys/fs/cgroup/box/memory.current": f"{1 << 30}\n",
        "sys/fs/cgroup/box/memory.stat": "inactive_file 4096\n",
        "proc/self/cgroup": "0::/box\n",
    }
    limited = read_machine(host, kernel=recorded_kernel(tmp_path / "limited", files=files | group))
    assert limited.memory_limit_bytes == 3 << 30
    assert limited.memory_text == "3.00 GiB of 15.26 GiB (control group)"


def test_a_label_of_several_lines_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["mul60", str(WITNESS), "local", "--remote-dir", str(tmp_path), "--label", "a\nb"]
    assert cli.run(["bench", *words]) == 2
    assert "error: the label 'a\\nb' holds more than plain text" in capsys.readouterr().err
