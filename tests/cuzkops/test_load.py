from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuzkops.commands.prove import far_text
from cuzkops.errors import OpsError, TimeoutExpired, UsageError
from cuzkops.remote.ctl import ctl, ctl_script, read_answer
from cuzkops.remote.host import Completed, Script
from cuzkops.steps import load
from cuzkops.steps.launch import LaunchRequest, launch
from cuzkops.steps.load import ProveRequest, prove
from cuzkops.steps.ship import ShipRequest, ship
from prover.protocol import JobAnswer, JobState, ReadyAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

WITNESS = bytes(range(256)) * 300


@pytest.fixture
def daemon(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> Iterator[int]:
    artifact, config = make_artifact(), make_config()
    release_id = ship(host, layout, ShipRequest(artifact, config)).release_id
    request = LaunchRequest(release_id, "one", artifact.manifest, config.sha256, 0, 20)
    pid = launch(host, layout, request).daemon.pid
    yield pid
    os.kill(pid, signal.SIGTERM)


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    path = tmp_path / "a witness.wtns"
    path.write_bytes(WITNESS)
    return path


@pytest.mark.usefixtures("daemon")
def test_a_local_witness_is_proved_several_times_and_leaves_no_file(host: Host, layout: Layout, witness: Path) -> None:
    seen: list[JobState] = []
    jobs = prove(host, layout, ProveRequest("mul", witness, count=6), lambda job: seen.append(job.state))
    sha256 = hashlib.sha256(WITNESS).hexdigest()
    assert [job.proofs[0].proof for job in jobs] == [{"small": sha256}] * 6
    assert len({job.id for job in jobs}) == 6
    assert sorted(seen) == [JobState.DONE] * 6 + [JobState.QUEUED] * 6
    assert [path.name for path in Path(layout.run).iterdir() if "wtns" in path.name] == []


@pytest.mark.usefixtures("daemon")
def test_a_witness_of_the_host_does_not_travel(host: Host, layout: Layout, witness: Path) -> None:
    [job] = prove(host, layout, ProveRequest("mul", host_witness=str(witness)))
    assert job.proofs[0].proof == {"small": str(witness)}


@pytest.mark.usefixtures("daemon")
def test_jobs_that_do_not_end_in_time_are_cancelled(host: Host, layout: Layout, witness: Path) -> None:
    with pytest.raises(TimeoutExpired, match="is queued and did not end in time: cancelled, with 1 behind it"):
        prove(host, layout, ProveRequest("stuck", witness, count=2, timeout_s=0.5))
    jobs = [json.loads(path.read_text()) for path in (Path(layout.home) / "state" / "jobs").glob("*.json")]
    assert [job["state"] for job in jobs] == ["cancelled", "cancelled"]


def test_without_a_daemon_nothing_travels(host: Host, layout: Layout, witness: Path) -> None:
    with pytest.raises(OpsError, match=f"no daemon {layout.name} was deployed there") as caught:
        prove(host, layout, ProveRequest("mul", witness))
    assert (caught.value.code, caught.value.hint) == ("not-deployed", "deploy one with `cuzkops deploy`")


def answering(monkeypatch: pytest.MonkeyPatch, verb: str, code: str, message: str) -> None:
    """Let the daemon refuse a verb with an error of its own; the other verbs reach it."""

    def refuse(host: Host, layout: Layout, kind: type[Any], *words: str, **options: Any) -> Any:
        if words[0] == verb:
            raise OpsError(code, message, "the daemon's own hint")
        return ctl(host, layout, kind, *words, **options)

    monkeypatch.setattr(load, "ctl", refuse)


@pytest.mark.parametrize("code", ["no-daemon", "daemon-died"])
def test_a_daemon_that_was_stopped_is_to_be_launched(
    host: Host, layout: Layout, witness: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    answering(monkeypatch, "ready", code, "no daemon runs in /home/x")
    with pytest.raises(OpsError, match="no daemon runs") as caught:
        prove(host, layout, ProveRequest("mul", witness))
    assert caught.value.hint == "start it with `cuzkops launch`"


@pytest.mark.usefixtures("daemon")
def test_errors_name_the_witness_as_the_user_does(
    host: Host, layout: Layout, witness: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, "job", "truncated", f"job 1 failed: {layout.home}/state/witnesses/{'0a' * 32} ends early")
    with pytest.raises(OpsError) as caught:
        prove(host, layout, ProveRequest("mul", witness))
    assert caught.value.message == f"job 1 failed: {witness} ends early"


@pytest.mark.usefixtures("daemon")
@pytest.mark.parametrize("code", ["no-such-circuit", "request"])
def test_a_circuit_that_is_not_served_is_a_usage_error(
    host: Host, layout: Layout, witness: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    answering(monkeypatch, "submit", code, "there is no circuit 'mull'")
    with pytest.raises(UsageError, match="there is no circuit 'mull'") as caught:
        prove(host, layout, ProveRequest("mul", host_witness=str(witness)))
    assert caught.value.hint == "the daemon's own hint"


def test_a_request_names_one_witness(witness: Path) -> None:
    with pytest.raises(UsageError, match="give one witness"):
        ProveRequest("mul")
    with pytest.raises(UsageError, match="give one witness"):
        ProveRequest("mul", witness, "/a")
    with pytest.raises(UsageError, match="'a' is not an absolute path on the host"):
        ProveRequest("mul", host_witness="a")
    with pytest.raises(UsageError, match="0 proofs cannot be made"):
        ProveRequest("mul", witness, count=0)


def test_the_daemons_own_error_is_raised(host: Host, layout: Layout, daemon: int) -> None:
    os.kill(daemon, signal.SIGSTOP)
    try:
        Path(layout.daemon_json).rename(f"{layout.daemon_json}.away")
        with pytest.raises(OpsError, match="no daemon runs in this home") as caught:
            ctl(host, layout, ReadyAnswer, "ready")
        assert caught.value.code == "refused"
    finally:
        Path(f"{layout.daemon_json}.away").rename(layout.daemon_json)
        os.kill(daemon, signal.SIGCONT)


def test_words_of_a_request_are_parameters(layout: Layout) -> None:
    script = ctl_script(layout, "job", "id; rm -rf /")
    assert "ARGUMENT_1='id; rm -rf /'\n" in script.text
    assert '"$RELEASE/prover" ctl "$ARGUMENT_0" "$ARGUMENT_1" --json --home "$DAEMON_HOME" <"$INPUT"' in script.text


def test_an_answer_of_another_kind_is_refused() -> None:
    done = Completed(Script("ask the daemon: job 1", ""), 0, b'{"ready": true, "state": "ready"}', b"")
    with pytest.raises(OpsError, match="ask the daemon: job 1: the answer is not JobAnswer: Field required"):
        read_answer(done, JobAnswer)


def test_how_far_many_proofs_are() -> None:
    assert far_text(0, 5, 3.0) == "0 of 5 proofs"
    assert far_text(2, 5, 10.0) == "2 of 5 proofs, 0.2/s, about 15 s left"
    assert far_text(5, 5, 20.0) == "5 of 5 proofs"
