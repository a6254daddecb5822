"""The whole loop by the commands that an operator types, on every kind of host; ``host_kinds.KINDS`` lists them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from host_kinds import LOOP_ALWAYS, kinds

from cuzkops import cli
from cuzkops.remote import lock
from cuzkops.remote.opening import open_host, resolve_layout
from cuzkops.target import parse_target
from prover.protocol import DEFAULT_REMOTE_DIR
from prover.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from host_kinds import HostPeer

    from cuzkops.steps.build import Artifact

# The first who asks for the artifact of Docker may wait until CPython was compiled.
pytestmark = [pytest.mark.peers, pytest.mark.timeout(1800)]

CIRCUITS = Path(__file__).parents[1] / "data" / "groth16"


class Operator:
    """Types commands about one host and reads their documents."""

    def __init__(self, peer: HostPeer, artifact: Artifact, capsys: pytest.CaptureFixture[str]) -> None:
        self.peer = peer
        self._place = [str(peer.target), *(["--remote-dir", peer.remote_dir] if peer.remote_dir else [])]
        circuits = [f"--circuit={name}={CIRCUITS / name / 'circuit.zkey'}" for name in ("mul60", "cube500")]
        self._carried = ["--artifact", str(artifact.directory), *circuits]
        self._capsys = capsys

    def types(self, *words: str, status: int = 0) -> Any:
        ended = cli.run([*words, *self._place, "--json"])
        captured = self._capsys.readouterr()
        assert ended == status, f"{words} on {self.peer.kind} ended with {ended}:\n{captured.err}\n{captured.out}"
        return json.loads(captured.out)

    def carries(self, verb: str, budget: str) -> Any:
        return self.types(verb, *self._carried, "--budget", budget)

    def proves(self, circuit: str, count: int, out: Path) -> None:
        folder = CIRCUITS / circuit
        self.types("prove", circuit, str(folder / "witness.wtns"), "--count", str(count), "--out", str(out))
        proofs = sorted(out.rglob("proof.json"))
        assert len(proofs) == count
        vkey = json.loads((folder / "verification_key.json").read_text())
        for proof in proofs:
            verify(vkey, json.loads(proof.with_name("public.json").read_text()), json.loads(proof.read_text()))

    def release_that_runs(self) -> str | None:
        report = self.types("status")
        if report["daemon"] is None:
            return None
        assert report["daemon"]["status"] == "running"
        assert report["answer"]["daemon"]["release_id"] == report["daemon"]["record"]["release_id"]
        release_id: str = report["daemon"]["record"]["release_id"]
        return release_id


@pytest.fixture
def operator(peer: HostPeer, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> Iterator[Operator]:
    artifact = request.getfixturevalue("docker_artifact" if peer.needs_bundle else "local_artifact")
    operator = Operator(peer, artifact, capsys)
    yield operator
    operator.types("kill", "--grace", "5s")  # where the test stopped half-way, a daemon is left


@pytest.mark.parametrize("peer", kinds(LOOP_ALWAYS), indirect=True)
def test_the_whole_loop(operator: Operator, tmp_path: Path) -> None:
    unused = operator.carries("ship", "768MiB")
    assert len(unused["sent"]) == 5  # three layers and two keys
    first, second = ships_and_launches(operator, tmp_path), deploys_over_it(operator, tmp_path)
    assert len({unused["release_id"], first, second}) == 3

    again = operator.types("rollback")["launched"]["daemon"]["release_id"]
    assert again == first == operator.release_that_runs()
    operator.proves("mul60", 1, tmp_path / "rolled back")

    locked_by_another(operator)
    assert operator.types("clean", "--keep", "1")["removed"]["releases"] == [unused["release_id"]]
    assert operator.types("clean", "--keep", "1")["freed_bytes"] == 0
    ends(operator)


def ships_and_launches(operator: Operator, tmp_path: Path) -> str:
    shipped = operator.carries("ship", "512MiB")
    assert shipped["sent"] == []  # all but the configuration is there
    launched = operator.types("launch", "--release", shipped["release_id"])["daemon"]
    assert launched["release_id"] == shipped["release_id"] == operator.release_that_runs()
    operator.proves("mul60", 3, tmp_path / "mul60")
    operator.proves("cube500", 1, tmp_path / "cube500")
    (table,) = reads_the_log(operator)
    assert table["run"] == launched["launch_id"]
    assert (table["jobs"]["done"], table["unended"]) == (4, [])
    rows = {circuit["circuit"]: circuit["rows"] for circuit in table["circuits"]}
    assert max(row["n"] for row in rows["mul60"]) == 2  # the first one stands apart, as the warm-up
    assert all(row["warm_up_ns"] > 0 for circuit in ("mul60", "cube500") for row in rows[circuit])
    release_id: str = shipped["release_id"]
    return release_id


def reads_the_log(operator: Operator) -> list[Any]:
    document = operator.types("logs", "--parse")
    assert document["n_bad_lines"] == 0
    runs: list[Any] = document["runs"]
    return runs


def deploys_over_it(operator: Operator, tmp_path: Path) -> str:
    before = operator.types("status")["daemon"]["record"]
    deployed = operator.carries("deploy", "640MiB")
    assert deployed["shipped"]["sent"] == []
    assert [process["pid"] for process in deployed["killed"]["processes"]] == [before["pid"]]
    assert deployed["killed"]["how"] == "drained"
    assert deployed["memory"]["released"]
    release_id: str = deployed["launched"]["daemon"]["release_id"]
    assert release_id == operator.release_that_runs() != before["release_id"]
    operator.proves("cube500", 2, tmp_path / "after")
    return release_id


def locked_by_another(operator: Operator) -> None:
    peer = operator.peer
    with open_host(parse_target(str(peer.target))) as host:
        layout = resolve_layout(host, peer.remote_dir or DEFAULT_REMOTE_DIR)
        lock.acquire(host, layout, lock.this_process("another-client", "another-run", "deploy"), pytest.fail)
    refused = operator.types("kill", status=6)["error"]
    assert refused["details"]["owner"]["client_id"] == "another-client"
    assert operator.types("status")["holder"] is not None
    assert operator.types("unlock", "--yes")["unlocked"]
    assert operator.types("status")["holder"] is None


def ends(operator: Operator) -> None:
    killed = operator.types("kill")
    assert killed["how"] == "drained"
    need = ["--need", "64MiB"]  # the kinds share one memory, and other tests take and give it back at the same time
    assert operator.types("wait-memory", *need)["released"]
    assert operator.types("wait-memory", "--check", *need)["released"]
    assert operator.release_that_runs() is None
    assert operator.types("kill")["processes"] == []
