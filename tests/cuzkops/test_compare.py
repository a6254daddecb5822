"""Two recorded benches beside each other: what differs behind the figures first, and no percentage without samples."""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, Any

import pytest
from test_state import record

from cuzkops import cli
from cuzkops.commands.runs import compared_text, shown_text
from cuzkops.errors import UnreadableError
from cuzkops.records import Machine, RunRecord
from cuzkops.state import open_state
from cuzkops.steps.compare import compare
from prover.protocol import BenchAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

MACHINE = Machine(
    hostname="box",
    kernel="6.1.0",
    architecture="x86_64",
    cpu="Some CPU @ 2 GHz",
    n_cpus=16,
    memory_bytes=64 << 30,
    thp="madvise",
    load_1min=0.25,
    gpus=["NVIDIA H200"],
    driver="550.54",
)


def answer(run_us: Sequence[int], **changes: Any) -> BenchAnswer:
    """A bench whose jobs took so long, without any queue."""
    samples = [{"job": f"j{i}", "latency_us": us + 100, "queue_us": 0, "run_us": us} for i, us in enumerate(run_us)]

    def percentiles(key: str) -> dict[str, Any]:
        values = sorted(int(str(sample[key])) for sample in samples)
        ends = {"min_us": values[0], "max_us": values[-1], "mean_us": sum(values) // len(values)}
        return {"n": len(values), "p50_us": int(statistics.median(values)), "p95_us": None, "p99_us": None, **ends}

    n = len(run_us)
    fields: dict[str, Any] = {
        "circuit": "mul60",
        "circuit_sha256": "2" * 64,
        "domain_size": 64,
        "n_public": 1,
        "n_jobs": n,
        "n_partitions": 1,
        "concurrency": 2,
        "n_warmup": 1,
        "n_done": n,
        "n_failed": 0,
        "n_proofs": n,
        "n_verified": n + 1,
        "wall_us": sum(run_us),
        "proofs_per_s": n / sum(run_us) * 1e6,
        "latency": percentiles("latency_us"),
        "queue": percentiles("queue_us"),
        "run": percentiles("run_us"),
        "samples": samples,
        "errors": [],
        "started_unix_ns": 1_796_000_000_000_000_000,
        "finished_unix_ns": 1_796_000_001_000_000_000,
        "daemon": None,
    }
    return BenchAnswer.model_validate(fields | changes)


def bench_run(run_id: str, bench: BenchAnswer, **changes: Any) -> RunRecord:
    facts = {"kind": "bench", "machine": MACHINE, "gpus": MACHINE.gpus, "driver": MACHINE.driver, "bench": bench}
    return record(run_id).model_copy(update=facts | changes)


SLOW = range(20_000, 20_400, 20)
FAST = range(18_000, 18_400, 20)


def test_a_change_that_the_samples_show_is_a_percentage_with_its_interval() -> None:
    found = compare(bench_run("a", answer(SLOW)), bench_run("b", answer(FAST), build_id="fedcba9876543210"))
    by_name = {row.metric: row for row in found.rows}
    assert by_name["run"].b_over_a is not None
    assert by_name["run"].b_over_a.is_shown
    assert 0.89 < by_name["run"].b_over_a.value < 0.91
    assert by_name["queue"].b_over_a is None
    assert by_name["queue"].why_not == "a duration of 0 has no ratio"
    assert [(d.what, d.spoils) for d in found.differences] == [("build", False)]
    text = compared_text(found)
    assert text.index("build: 0123456789abcdef and fedcba9876543210") < text.index("median A")
    assert "-9.9 % (-10.3 % to -9.5 %)" in text
    assert "take care" not in text
    assert "One run each" in text


def test_no_change_and_too_few_samples_give_no_percentage_of_a_change() -> None:
    same = compare(bench_run("a", answer(SLOW)), bench_run("b", answer(list(reversed(SLOW)))))
    assert same.differences == ()
    text = compared_text(same)
    assert "no difference shown (-0." in text
    assert "the two were measured on the same build, configuration, machine and load" in text
    few = compare(bench_run("a", answer([100, 110, 120])), bench_run("b", answer([200])))
    assert {row.b_over_a for row in few.rows} == {None}
    run = next(row for row in few.rows if row.metric == "run")
    assert run.why_not == "the samples allow no interval: too few of them"
    assert (run.a and run.a.n, run.b and run.b.n) == (3, 1)
    assert "%" not in compared_text(few).partition("(ms)")[2].partition("proofs/s")[0].replace("95 % interval", "")


def test_another_machine_or_load_is_flagged_before_the_figures() -> None:
    other = MACHINE.model_copy(update={"cpu": "Another CPU", "kernel": "6.6.0"})
    b = bench_run("b", answer(FAST, concurrency=8), machine=other, host="box2", config_sha256="3" * 64)
    found = compare(bench_run("a", answer(SLOW)), b)
    assert [d.what for d in found.differences if d.spoils] == ["host", "jobs in flight", "CPU", "kernel"]
    assert [d.what for d in found.differences if not d.spoils] == ["configuration"]
    text = compared_text(found)
    assert "take care: with another host, jobs in flight, CPU, kernel the figures do not tell" in text


def test_a_machine_that_was_at_work_is_flagged() -> None:
    b = bench_run("b", answer(SLOW), machine=MACHINE.model_copy(update={"load_1min": 9.5}))
    found = compare(bench_run("a", answer(SLOW)), b)
    assert found.differences == ()
    assert "take care: the machine was at work before: load average 9.50 on 16 CPUs" in compared_text(found)
    assert compare(bench_run("a", answer(SLOW)), bench_run("b", answer(SLOW))).busy == ""


@pytest.mark.parametrize("changes", [{"circuit_sha256": "3" * 64}, {"n_partitions": 4}])
def test_different_work_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnreadableError, match="a and b did different work") as refused:
        compare(bench_run("a", answer(SLOW)), bench_run("b", answer(SLOW, **changes)))
    assert refused.value.exit_status == 5


def test_a_deploy_measured_nothing() -> None:
    with pytest.raises(UnreadableError, match="run a is a deploy: nothing was measured in it"):
        compare(record("a"), bench_run("b", answer(SLOW)))


def test_a_run_is_shown_with_what_it_was_made_of() -> None:
    text = shown_text(bench_run("a", answer(SLOW), label="wider windows", peak_bytes=3 << 30))
    for part in (
        "run a: bench of prover on local, wider windows",
        "16 CPUs (Some CPU @ 2 GHz), 64.00 GiB, kernel 6.1.0, load average 0.25 before",
        "peak memory 3.00 GiB",
        "20 of 20 jobs done, 2 in flight, 1 proof each, after 1 to warm up; 21 proofs verified",
        "20.100 to 20.280",
    ):
        assert part in text
    assert "deploy of prover on local" in shown_text(record("d"))


@pytest.fixture
def recorded() -> list[str]:
    """Two benches with a deploy after each; returns the ids of the benches, the older first."""
    state, ids = open_state(), []
    for at, bench in ((1, answer(SLOW)), (3, answer(FAST))):
        for run_id, kind in ((f"2026112{at}-000000", bench_run), (f"2026112{at + 1}-000000", None)):
            made = kind(run_id, bench) if kind else record(run_id)
            state.run(run_id).write(made)
            ids += [run_id] if kind else []
    return ids


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    status = cli.run([*words, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_runs_are_listed_shown_and_compared(recorded: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    old, new = recorded
    status, listed = run(capsys, "runs", "list")
    assert (status, [row["kind"] for row in listed]) == (0, ["deploy", "bench", "deploy", "bench"])
    assert [row["n"] for row in listed] == [None, 20, None, 20]
    assert run(capsys, "runs", "show", "last")[1]["run_id"] == "20261124-000000"
    assert run(capsys, "runs", "show", "previous")[1]["run_id"] == new
    assert run(capsys, "runs", "show", "20261121")[1]["bench"]["n_jobs"] == 20
    status, found = run(capsys, "runs", "compare", "previous", "last")
    assert (status, found["schema"], found["a"], found["b"]) == (0, 1, old, new)
    assert found == run(capsys, "runs", "compare", old, new)[1]
    assert cli.run(["runs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["run", "kind", "target"]
    assert "latency (median, ms)" in lines[0]
    assert len(lines) == 5


def test_every_command_gives_the_same_median(capsys: pytest.CaptureFixture[str]) -> None:
    bench = answer([2000, 4000])
    assert bench.latency is not None
    older = bench.model_copy(update={"latency": bench.latency.model_copy(update={"p50_us": 2100})})  # nearest rank
    for run_id, found in (("20261121-000000", older), ("20261122-000000", bench)):
        open_state().run(run_id).write(bench_run(run_id, found))
    assert [row["latency_p50_us"] for row in run(capsys, "runs", "list")[1]] == [3100, 3100]
    for words in (("list",), ("show", "previous"), ("compare", "previous", "last")):
        assert cli.run(["runs", *words]) == 0
        assert "3.100" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "status"),
    [
        (("show", "2026112"), "no-such-run", 2),
        (("show", "nothing"), "no-such-run", 2),
        (("show", "../../etc"), "no-such-run", 2),
        (("compare", "20261122", "last"), "not-comparable", 5),
    ],
)
@pytest.mark.usefixtures("recorded")
def test_a_run_that_cannot_be_meant(
    words: tuple[str, ...], code: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found, document = run(capsys, "runs", *words)
    assert (found, document["error"]["code"]) == (status, code)


def test_nothing_recorded_and_a_damaged_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["runs", "list"]) == 0
    assert "no runs were recorded here" in capsys.readouterr().out
    assert run(capsys, "runs", "compare", "previous", "last")[1]["error"]["code"] == "no-such-run"
    folder = open_state().new_run()
    (folder.path / "run.json").write_text("{}")
    assert cli.run(["runs", "list"]) == 0
    assert "left out: " in capsys.readouterr().err
