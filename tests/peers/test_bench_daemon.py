"""bench and runs against the real daemon, deployed on this machine: figures, records, and Ctrl-C in the middle."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuzkops import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.steps.build import Artifact

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

GROTH16 = Path(__file__).parents[1] / "data" / "groth16" / "mul60"
WITNESS = str(GROTH16 / "witness.wtns")


@pytest.fixture
def place(
    local_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[list[str]]:
    """A place with the real daemon; it is stopped at the end."""
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)  # a host where nothing was killed: its window is not ours
    place = ["local", "--remote-dir", str(tmp_path / "remote dir")]
    circuit = f"mul60={GROTH16 / 'circuit.zkey'}"
    artifact = str(local_artifact.directory)
    assert cli.run(["deploy", *place, "--artifact", artifact, "--circuit", circuit, "--budget", "1GiB"]) == 0
    capsys.readouterr()
    yield place
    assert cli.run(["kill", *place, "--grace", "30s"]) == 0


def run(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    status = cli.run([*words, "--json"])
    captured = capsys.readouterr()
    assert status == 0, captured.err
    return json.loads(captured.out)


def test_what_is_measured_is_verified_recorded_and_in_the_log(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    first = run(capsys, "bench", "mul60", WITNESS, *place, "--jobs", "7", "--concurrency", "2", "--warmup", "1")
    bench = first["bench"]
    assert (bench["n_done"], bench["n_failed"], bench["n_verified"]) == (7, 0, 8)
    assert first["circuits"] == {"mul60": hashlib.sha256((GROTH16 / "circuit.zkey").read_bytes()).hexdigest()}
    assert all(sample["run_us"] <= sample["latency_us"] for sample in bench["samples"])
    # The daemon's own log tells of the same jobs: the first proof was the warm-up of both.
    [log] = run(capsys, "logs", *place, "--parse")["runs"]
    [partition] = [row for row in log["circuits"][0]["rows"] if row["phase"] == "partition"]
    assert partition["n"] == 7
    second = run(capsys, "bench", "mul60", WITNESS, *place, "--jobs", "7")
    found = run(capsys, "runs", "compare", "previous", "last")
    assert (found["a"], found["b"], found["differences"]) == (first["run_id"], second["run_id"], [])
    latency = next(row for row in found["rows"] if row["metric"] == "latency")
    assert latency["b_over_a"]["low"] <= latency["b_over_a"]["value"] <= latency["b_over_a"]["high"]


def test_ctrl_c_ends_the_load_on_the_host_and_the_daemon_runs_on(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-m", "cuzkops", "bench", "mul60", WITNESS, *place, "--jobs", "100000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as bench:
        assert bench.stderr
        for line in bench.stderr:
            if line.startswith("bench: "):
                break
        bench.send_signal(signal.SIGINT)
        last = bench.stderr.read()
        assert bench.wait(60) == 130
    assert "interrupted: nothing was recorded; jobs that had not ended are cancelled" in last
    found = run(capsys, "bench", "mul60", WITNESS, *place, "--jobs", "2")  # the queue is free again
    assert found["bench"]["n_done"] == 2
    assert [row["kind"] for row in run(capsys, "runs", "list")] == ["bench", "deploy"]
