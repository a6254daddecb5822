"""Commands around a daemon that runs: deployed on this machine from the small artifact of the tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuzkops import cli
from cuzkops.state import RunFolder, open_state
from cuzkops.steps import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact
    from prover.protocol import JobAnswer

ROOT = Path(__file__).parents[2]
LOG = ROOT / "tests" / "data" / "timelines" / "two-circuits.log"
ZKEY = ROOT / "tests" / "data" / "groth16" / "mul60" / "circuit.zkey"
pytestmark = pytest.mark.peers  # a daemon process
WITNESS = ROOT / "tests" / "data" / "groth16" / "mul60" / "witness.wtns"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A place of the test's own; what was deployed there is stopped at the end."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)  # a host where nothing was killed: its window is not ours
    place = ["local", "--remote-dir", str(tmp_path / "remote dir")]
    yield place
    assert cli.run(["kill", *place, "--grace", "5s"]) == 0


@pytest.fixture
def deploy(
    place: list[str], make_artifact: Callable[..., Artifact], capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    artifact = make_artifact()

    def run_deploy(*words: str) -> Any:
        command = ["deploy", *place, "--artifact", str(artifact.directory), "--circuit", f"mul60={ZKEY}", *words]
        return run(capsys, *command)

    return run_deploy


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    status = cli.run([*words, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


def text(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(list(words)) == 0
    return capsys.readouterr().out


def test_a_deploy_runs_what_was_shipped_and_is_recorded(
    deploy: Callable[..., Any], place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, err = deploy("--budget", "64MiB")
    assert status == 0
    daemon = document["launched"]["daemon"]
    assert daemon["release_id"] == document["shipped"]["release_id"]
    for step in ("preflight", "build", "ship", "check", "kill", "wait-memory", "launch"):
        assert re.search(rf"^{step}: .* \([0-9.]+ (us|ms|s)\)$", err, re.MULTILINE), step
    (run_folder,) = open_state().runs()
    assert run_folder.run_id == daemon["launch_id"]
    record = run_folder.read()
    assert (record.target, record.build_id, record.peak_bytes) == ("local", daemon["build_id"], None)
    samples = [json.loads(line) for line in run_folder.memory.read_text().splitlines()]
    assert all(sample["available_bytes"] > 0 for sample in samples)
    assert len(samples) >= 2
    status_text = text(capsys, "status", *place)
    assert f"release {daemon['release_id']}; pid {daemon['pid']} " in status_text
    assert "lock: free" in status_text
    config = tmp_path / "remote dir" / "prover" / "releases" / daemon["release_id"] / "config.toml"
    assert "67108864B" in config.read_text()


def test_samples_that_cannot_be_kept_are_said_once_and_the_deploy_goes_on(
    deploy: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = RunFolder.memory.fget
    full = property(lambda run: kept(run) if run.path.name.startswith("kill-") else Path("/dev/full"))
    monkeypatch.setattr(RunFolder, "memory", full)
    status, document, err = deploy()
    assert (status, document["launched"]["daemon"]["state"]) == (0, "ready")
    assert err.count("/dev/full cannot be written: No space left on device") == 1


def test_a_second_deploy_stops_the_first_daemon(deploy: Callable[..., Any]) -> None:
    first = deploy("--budget", "64MiB")[1]["launched"]
    status, second, _ = deploy("--budget", "65MiB")
    assert status == 0
    assert second["killed"]["processes"][0]["pid"] == first["daemon"]["pid"]
    assert second["launched"]["previous"] == first["daemon"]["release_id"]
    assert not Path(f"/proc/{first['daemon']['pid']}/exe").exists()


def test_an_unchanged_deploy_has_nothing_to_do_and_leaves_the_daemon_alone(
    deploy: Callable[..., Any], tmp_path: Path
) -> None:
    first = deploy()[1]["launched"]["daemon"]
    status, document, err = deploy()
    assert status == 0
    assert "launched" not in document
    assert (document["release_id"], document["daemon"]["pid"]) == (first["release_id"], first["pid"])
    assert "kill: " not in err
    assert Path(f"/proc/{first['pid']}/exe").exists()
    assert not (tmp_path / "remote dir" / "lock").exists()
    assert len(list((open_state().root / "runs").iterdir())) == 1  # nothing ran, so there is no run
    titles = [script["title"] for script in deploy("--dry-run")[1]["plan"]]
    assert not [title for title in titles if title.startswith(("check release", "launch release"))]
    titles = [script["title"] for script in deploy("--dry-run", "--restart")[1]["plan"]]
    assert [title for title in titles if title.startswith("launch release")]
    status, document, _ = deploy("--restart")
    assert (status, document["killed"]["processes"][0]["pid"]) == (0, first["pid"])
    again = document["launched"]["daemon"]
    assert (again["release_id"], again["pid"] != first["pid"]) == (first["release_id"], True)


def test_a_daemon_with_circuits_is_not_replaced_by_one_without_unasked(
    place: list[str],
    make_artifact: Callable[..., Artifact],
    deploy: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, first, _ = deploy()
    assert status == 0
    artifact = str(make_artifact().directory)
    for verb in (["deploy"], ["deploy", "--dry-run"], ["ship"]):
        status, document, _ = run(capsys, *verb, *place, "--artifact", artifact, "--budget", "64MiB")
        assert (status, document["error"]["code"]) == (2, "loses-circuits")
        assert "serves mul60" in document["error"]["message"]
        assert "--config" in document["error"]["hint"]
    assert Path(f"/proc/{first['launched']['daemon']['pid']}/exe").exists()
    config = tmp_path / "none.toml"
    config.write_text("")
    assert run(capsys, "ship", *place, "--artifact", artifact, "--config", str(config))[0] == 0


def test_a_need_that_the_host_cannot_meet_is_refused_before_anything_changes(
    deploy: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = deploy("--need", "4000GiB")
    assert (status, document["error"]["code"]) == (2, "memory")
    assert not (tmp_path / "remote dir").exists()
    (row,) = run(capsys, "runs", "list")[1]
    assert (row["kind"], row["failed"]) == ("deploy", document["error"]["message"])
    assert cli.run(["runs", "list"]) == 0
    assert "deploy, failed" in capsys.readouterr().out
    assert cli.run(["runs", "show", "last"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"  failed: {row['failed']}"


def test_a_dry_deploy_prints_every_script_and_changes_nothing(deploy: Callable[..., Any], tmp_path: Path) -> None:
    status, document, said = deploy("--dry-run")
    assert status == 0
    assert re.search(r"^would deploy build [0-9a-f]{16} of .*, made .* UTC: runtime, native, app, ", said, re.MULTILINE)
    titles = [script["title"] for script in document["plan"]]
    order = [
        next(i for i, title in enumerate(titles) if title.startswith(word))
        for word in ("take the lock", "check release", "launch release", "release the lock")
    ]
    assert order == sorted(order)
    assert not (tmp_path / "remote dir").exists()
    assert list((open_state().root / "runs").glob("*")) == []


def test_ship_then_launch_is_a_deploy_by_hand(
    place: list[str], make_artifact: Callable[..., Artifact], capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = str(make_artifact().directory)
    status, document, _ = run(capsys, "launch", *place)
    assert (status, document["error"]["code"]) == (2, "no-release")
    status, shipped, _ = run(capsys, "ship", *place, "--artifact", artifact)
    assert status == 0
    status, document, _ = run(capsys, "launch", *place)
    assert shipped["release_id"] in document["error"]["message"]
    status, document, _ = run(capsys, "launch", *place, "--release", shipped["release_id"][:8])
    assert (status, document["daemon"]["release_id"]) == (0, shipped["release_id"])
    status, document, _ = run(capsys, "launch", *place)
    assert (status, document["error"]["code"]) == (1, "runs-already")


def test_proofs_are_written_where_snarkjs_looks_for_them(
    deploy: Callable[..., Any], place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy()[0] == 0
    status, document, _ = run(capsys, "prove", "mul60", str(WITNESS), *place, "--out", str(tmp_path / "one"))
    assert (status, len(document["jobs"])) == (0, 1)
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == ["proof.json", "public.json"]
    assert json.loads((tmp_path / "one" / "public.json").read_text()) == ["1"]
    out = text(capsys, "prove", "mul60", str(WITNESS), *place, "--out", str(tmp_path / "three"), "--count", "3")
    assert out.startswith("3 proofs of mul60, verified by the daemon, ")
    assert sorted(path.name for path in (tmp_path / "three").iterdir()) == ["1", "2", "3"]


def test_a_witness_that_is_not_here_is_refused_before_connecting(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "prove", "mul60", "none.wtns", *place)
    assert (status, document["error"]["code"]) == (2, "witness")
    assert "--on-host" in document["error"]["hint"]


def test_proofs_that_cannot_be_kept_are_not_begun(
    place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_bytes(b"")
    status, document, _ = run(capsys, "prove", "mul60", str(WITNESS), *place, "--out", str(tmp_path / "taken"))
    assert (status, document["error"]["code"]) == (2, "out")
    assert f"proofs cannot be written to {tmp_path}/taken" in document["error"]["message"]


def test_a_witness_without_a_byte_is_refused_before_connecting(
    place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "none.wtns").write_bytes(b"")
    status, document, _ = run(capsys, "prove", "mul60", str(tmp_path / "none.wtns"), *place)
    assert (status, document["error"]["message"]) == (2, f"{tmp_path}/none.wtns is empty")
    status, document, _ = run(capsys, "prove", "mul60", str(WITNESS.with_name("circuit.zkey")), *place)
    assert status == 2
    assert document["error"]["message"].endswith("circuit.zkey is no witness (.wtns) but a proving key (.zkey)")


def test_an_interruption_keeps_the_proofs_that_arrived(
    deploy: Callable[..., Any],
    place: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert deploy()[0] == 0
    really = load.prove

    def interrupted(host: Host, layout: Layout, request: load.ProveRequest, keep: Callable[[Any], None]) -> Any:
        n_done = 0

        def keep_and_stop(job: JobAnswer) -> None:
            nonlocal n_done
            keep(job)
            n_done += bool(job.proofs)
            if n_done == 2:
                raise KeyboardInterrupt

        return really(host, layout, request, keep_and_stop)

    monkeypatch.setattr(load, "prove", interrupted)
    out = tmp_path / "out"
    status, document, _ = run(capsys, "prove", "mul60", str(WITNESS), *place, "--out", str(out), "--count", "5")
    assert status == 130
    assert f"2 of 5 proofs were written to {out}; the jobs that were submitted" in document["error"]["message"]
    assert sorted(str(path.relative_to(out)) for path in out.rglob("proof.json")) == ["1/proof.json", "2/proof.json"]


def test_logs_where_nothing_was_launched(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, document, _ = run(capsys, "logs", *place)
    assert (status, document["error"]["code"]) == (2, "no-logs")


def test_a_log_without_a_timing_line_is_status_5(
    deploy: Callable[..., Any], place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy()[0] == 0  # the small daemon writes lines that lack keys
    status, document, _ = run(capsys, "logs", *place, "--parse")
    assert (status, document["error"]["code"]) == (5, "no-timing-lines")
    assert "lacks build, release" in document["error"]["details"]["bad_lines"][0]


def test_a_parsed_log_completes_the_record_of_its_run(
    deploy: Callable[..., Any], place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch_id = deploy()[1]["launched"]["daemon"]["launch_id"]
    log = tmp_path / "remote dir" / "prover" / "logs" / f"{launch_id}.log"
    log.write_text(LOG.read_text().replace("20261129-193436-000000-a1b2", launch_id))
    status, document, _ = run(capsys, "logs", *place, "--parse")
    assert status == 0
    assert document["runs"][0]["run"] == launch_id
    (run_folder,) = open_state().runs()
    assert run_folder.read().peak_bytes == 124 << 20
    assert (run_folder.logs / log.name).read_bytes() == log.read_bytes()
    assert text(capsys, "logs", *place, "--parse").splitlines()[0] == f"run {launch_id}"


def test_lines_are_shown_as_they_are_and_as_one_document(
    deploy: Callable[..., Any], place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert deploy()[0] == 0
    lines = text(capsys, "logs", *place).splitlines()
    assert lines[0].startswith("HEADER run=")
    assert text(capsys, "logs", *place, "--lines", "1").splitlines() == lines[-1:]
    status, document, _ = run(capsys, "logs", *place)
    assert (status, document["lines"]) == (0, lines)
    assert "\n".join(lines) == "".join(Path(file).read_text() for file in document["files"]).rstrip("\n")
    assert run(capsys, "logs", *place, "--lines", "0")[1]["lines"] == []


def test_following_ends_with_the_daemon(
    deploy: Callable[..., Any], place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    pid = deploy()[1]["launched"]["daemon"]["pid"]
    timer = threading.Timer(1.5, os.kill, (pid, signal.SIGTERM))
    timer.start()
    assert cli.run(["logs", *place, "--follow", "--parse", "--json"]) == 0
    timer.join()
    captured = capsys.readouterr()
    documents = [json.loads(line) for line in captured.out.splitlines()]
    assert [document["kind"] for document in documents] == ["BadLine", "BadLine"]  # the small daemon's
    assert "the daemon ended" in captured.err
    assert cli.run(["logs", *place, "--follow", "--lines", "1"]) == 0  # and again: nobody runs
    captured = capsys.readouterr()
    assert captured.out.startswith("DAEMON run=")
    assert "no daemon runs" in captured.err


def test_a_launch_id_that_is_no_name_is_refused(
    place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "remote dir" / "prover" / "logs"
    logs.mkdir(parents=True)
    shutil.copy(LOG, logs / "-rf ..log")
    status, document, _ = run(capsys, "logs", *place)
    assert (status, document["error"]["code"]) == (5, "launch-id")
    assert not (open_state().root / "runs").exists()


def test_ctrl_c_while_the_new_daemon_starts_names_it_and_how_to_go_on(
    place: list[str], make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[small]\nmode = "never-ready"\n')
    artifact = str(make_artifact().directory)
    command = [sys.executable, "-m", "cuzkops", "deploy", *place, "--artifact", artifact, "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as deploy:
        assert deploy.stderr is not None
        for line in deploy.stderr:
            if "is starting" in line:
                break
        deploy.send_signal(signal.SIGINT)
        last = deploy.stderr.read()
        assert deploy.wait(30) == 130
    pid = re.search(r"pid (\d+)", last)
    assert pid, last
    assert last.startswith(f"error: interrupted: pid {pid[1]} of launch ")
    assert Path(f"/proc/{pid[1]}/exe").exists()  # it goes on, as it was said
    where = shlex.join(place)
    again = (
        f"`cuzkops kill {where}` stops it; go on with: cuzkops deploy {where} --config {config} --artifact {artifact}"
    )
    assert again in last
    assert not (tmp_path / "remote dir" / "lock").exists()
