"""The load and its figures: a target whose answers are known, this process, and a daemon."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover import bench
from prover.bench import BenchFailedError, Load, percentiles
from prover.cli import main
from prover.errors import InputError, ProofInvalidError, ProverError
from prover.protocol import BenchAnswer, CircuitStatus, ErrorBody, JobAnswer, JobState, ProofRecord
from prover.synthetic import constraints, parse_size, witness

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
MUL60 = ROOT / "tests" / "data" / "groth16" / "mul60"
VKEY, PUBLIC, PROOF = (
    json.loads((MUL60 / name).read_text()) for name in ("verification_key.json", "public.json", "proof.json")
)

NO_ROOM = ErrorBody(code="budget", message="no room", details={"exit_status": 4})


class Known:
    """Proves with a recorded proof, so many milliseconds after the start as its test says; counts who is in flight."""

    def __init__(self, fail: int | None = None, proof: dict[str, Any] = PROOF) -> None:
        self.lock = threading.Lock()
        self.n_submitted = self.in_flight = self.most_in_flight = 0
        self.cancelled: list[str] = []
        self.fail = fail
        self.proof = proof
        self.never = False
        self.together = threading.Barrier(1)

    def submit(self) -> JobAnswer:
        with self.lock:
            self.n_submitted += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            number = self.n_submitted
        return self.job(number, JobState.QUEUED)

    def job(self, number: int, state: JobState) -> JobAnswer:
        return JobAnswer(
            id=f"{number}",
            circuit="mul60",
            state=state,
            n_partitions=2,
            n_partitions_done=0,
            submitted_unix_ns=0,
            started_unix_ns=1_000_000 * number,
            finished_unix_ns=3_000_000 * number,
            proofs=[ProofRecord(proof=self.proof, public=PUBLIC)] * 2 if state is JobState.DONE else [],
            error=NO_ROOM if number == self.fail else None,
        )

    def wait(self, job_id: str, wait_s: float) -> JobAnswer:
        if self.never:
            time.sleep(0.01)
            return self.job(int(job_id), JobState.RUNNING)
        if int(job_id) > 1:  # the first one is warm-up
            self.together.wait(30)
        with self.lock:
            self.in_flight -= 1
        assert wait_s > 0
        return self.job(int(job_id), JobState.FAILED if int(job_id) == self.fail else JobState.DONE)

    def cancel(self, job_id: str) -> None:
        self.cancelled.append(job_id)

    def circuit(self) -> CircuitStatus:
        return CircuitStatus(name="mul60", sha256="ab" * 32, n_constraints_domain=64, n_public=1, loaded_bytes=1)

    def verification_key(self) -> dict[str, Any]:
        return dict(VKEY)

    def daemon(self) -> None:
        return None


def load(**changes: Any) -> Load:
    settings: dict[str, Any] = {"n_jobs": 6, "concurrency": 3, "n_warmup": 1, "n_partitions": 2, "timeout_s": 60}
    return Load(**{**settings, **changes})


def quiet(_stage: str, _share: float | None) -> None:
    pass


def test_the_figures_of_a_load() -> None:
    target = Known()
    target.together = threading.Barrier(3)  # opens only while as many as asked for are in flight
    answer = bench.run(target, load(), quiet)
    assert (target.n_submitted, target.most_in_flight) == (7, 3)
    assert (answer.n_jobs, answer.n_done, answer.n_failed, answer.n_proofs, answer.n_verified) == (6, 6, 0, 12, 14)
    assert sorted(sample.job for sample in answer.samples) == [str(i) for i in range(2, 8)]
    assert sorted(sample.queue_us for sample in answer.samples) == [1000 * i for i in range(2, 8)]
    assert answer.run is not None
    assert (answer.run.n, answer.run.min_us, answer.run.p50_us, answer.run.max_us) == (6, 4000, 9000, 14000)
    assert (answer.run.mean_us, answer.run.p95_us, answer.run.p99_us) == (9000, None, None)
    assert answer.proofs_per_s == pytest.approx(12 / (answer.wall_us / 1e6))
    assert answer.started_unix_ns <= answer.finished_unix_ns
    assert bench.render(answer).startswith("mul60, domain 64: 6 jobs of 2 proofs in ")
    assert BenchAnswer.model_validate_json(answer.model_dump_json(by_alias=True)) == answer


def test_a_failed_job_is_an_error_with_the_measurement() -> None:
    with pytest.raises(BenchFailedError, match="1 of 7 jobs failed, the first one: no room") as caught:
        bench.run(Known(fail=3), load(), quiet)
    assert caught.value.exit_status == 4
    answer = BenchAnswer.model_validate(caught.value.details["bench"])
    assert (answer.n_done, answer.n_failed, answer.errors[0].code) == (5, 1, "budget")


def test_a_proof_that_does_not_verify_is_no_measurement() -> None:
    other = {**PROOF, "pi_a": VKEY["vk_alpha_1"]}
    with pytest.raises(ProofInvalidError):
        bench.run(Known(proof=other), load(), quiet)


def test_a_load_that_takes_too_long_is_cancelled() -> None:
    target = Known()
    target.never = True
    with pytest.raises(ProverError, match="did not end in time"):
        bench.run(target, load(timeout_s=0.1), quiet)
    assert target.cancelled == ["1"]


def test_a_target_that_refuses_ends_the_load() -> None:
    class Refusing(Known):
        def submit(self) -> JobAnswer:
            if self.n_submitted == 2:
                raise ProverError("queue-full", "no more")
            return super().submit()

    with pytest.raises(ProverError, match="no more"):
        bench.run(Refusing(), load(concurrency=1), quiet)


def test_the_median_is_that_of_the_tool_and_the_other_percentiles_are_nearest_ranks() -> None:
    assert percentiles([]) is None
    found = percentiles(list(range(100, 0, -1)))
    assert found is not None
    assert (found.p50_us, found.p95_us, found.p99_us) == (50, 95, 99)  # 50.5, in whole microseconds
    twenty = percentiles([5] * 19 + [7])
    assert twenty is not None
    assert (twenty.p95_us, twenty.p99_us, twenty.max_us) == (5, None, 7)


@pytest.mark.parametrize(("text", "n"), [("synthetic:2^16", 2**16 - 2), ("2^2", 2), ("1", 1), ("synthetic:1000", 1000)])
def test_sizes(text: str, n: int) -> None:
    assert parse_size(text) == n
    if n < 10_000:
        assert constraints(n).header.domain_size == (4 if n <= 2 else 1024)


@pytest.mark.parametrize("text", ["", "2^1", "2^29", "0", "synthetic:", "2^x", "9999999999", "synthetic:-3"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(InputError):
        parse_size(text)


def test_the_witness_fits_the_circuit() -> None:
    values = witness(5)
    assert values[0] == 1
    assert values[2] == 3
    assert all((values[2 + i] + i + 1) * values[2 + i] % (1 << 255) for i in range(5))
    assert values[3] == 4 * 3
    assert values[4] == (12 + 2) * 12


def test_bench_in_this_process_makes_its_circuit_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    arguments = ["bench", "--circuit", "synthetic:30", "--jobs", "3", "--count", "2", "--threads", "1"]
    assert main([*arguments, "--log", str(tmp_path / "log"), "--json"]) == 0
    answer = BenchAnswer.model_validate_json(capsys.readouterr().out)
    assert (answer.domain_size, answer.n_done, answer.n_proofs, answer.n_verified) == (32, 3, 6, 8)
    assert answer.daemon is None
    (zkey,) = (tmp_path / "prover/synthetic").glob("*.zkey")
    made = zkey.stat()
    assert main(arguments) == 0
    assert re.match(r"synthetic-30, domain 32: 3 jobs of 2 proofs in [0-9.]+ s, 2 in flight: ", capsys.readouterr().out)
    assert zkey.stat().st_mtime_ns == made.st_mtime_ns
    assert (tmp_path / "log").read_text().count("event=done") == 4


def test_an_interrupt_ends_a_bench_at_once(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    command = [sys.executable, "-m", "prover", "bench", "--circuit", "synthetic:100", "--jobs", "100000"]
    log = tmp_path / "log"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*command, "--log", log], cwd=ROOT, env=environment, stderr=subprocess.PIPE) as running:
        wait_until(lambda: log.exists() and log.read_text().count("event=done") > 3, within_s=120)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert b"interrupted" in err
    assert b"Traceback" not in err
    assert list(tmp_path.glob("prover-bench-*")) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["--circuit", "mul60"],
        ["--circuit", "a b", "--zkey", str(MUL60 / "circuit.zkey"), "--wtns", str(MUL60 / "witness.wtns")],
        ["--zkey", str(MUL60 / "circuit.zkey")],
        ["--jobs", "0"],
        ["--concurrency", "0"],
        ["--count", "257"],
        ["--workers", "0"],
        ["--lookahead", "0"],
        ["--circuit", "mul60", "--zkey", str(MUL60 / "circuit.zkey"), "--wtns", "/nowhere"],
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    err = capsys.readouterr().err
    assert "error: " in err
    assert "Traceback" not in err


def test_a_synthetic_circuit_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synthetic", "10", str(tmp_path / "new")]) == 0
    assert "INSECURE" in capsys.readouterr().err
    files = [str(tmp_path / "new" / name) for name in ("circuit.zkey", "witness.wtns")]
    assert main(["prove", *files, str(tmp_path / "proof.json"), str(tmp_path / "public.json")]) == 0
    assert main(["synthetic", "ten", str(tmp_path)]) == 2


@pytest.mark.peers
def test_bench_of_a_daemon(make_daemon: Callable[..., Any]) -> None:
    daemon = make_daemon("mul60")
    daemon.start()
    data = (MUL60 / "witness.wtns").read_bytes()
    arguments = ["bench", "--circuit", "mul60", "--jobs", "4", "--count", "2"]
    for given, stdin in ((["--witness-path", MUL60 / "witness.wtns"], b""), ([], data)):
        answer = BenchAnswer.model_validate(daemon.ask(*arguments, *given, stdin=stdin))
        assert (answer.n_done, answer.n_proofs, answer.n_verified) == (4, 8, 10)
        assert answer.daemon is not None
        assert answer.daemon.pid == daemon.process.pid
    assert daemon.ask("vkey", "--circuit", "mul60") == VKEY
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    failed = daemon.ctl(*arguments, "--json", stdin=data[:-1] + b"\x01")
    assert failed.returncode in (2, 3)
    error = json.loads(failed.stdout)["error"]
    assert error["details"]["bench"]["n_failed"] == 4
    assert daemon.ctl("bench", "--circuit", "nothing", stdin=data).returncode == 2
    assert daemon.ctl("vkey", "--circuit", "nothing").returncode == 2
