"""What is wrong with a configuration is said before anything travels, as far as this machine can know it."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import wait_until

from cuzkops import cli
from cuzkops.artifact.layer_cache import cache_folder
from cuzkops.configuration import load_configuration
from cuzkops.errors import TimeoutExpired, UsageError
from cuzkops.steps import build as build_step
from cuzkops.steps.build import BuildRequest, build, built
from cuzkops.steps.check import keys_named, raise_problems
from cuzkops.steps.check_here import check_by_tool, check_here, why_not_here
from cuzkops.steps.deploy import deploy, release_of
from cuzkops.steps.findings import Finding
from cuzkops.steps.workspace import turn, workspace
from prover.protocol import CheckAnswer, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stand_ins import Recorder

    from cuzkops.artifact.assemble import Recipe
    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact
    from cuzkops.steps.deploy import DeployRequest

ANSWER = """#!/bin/sh
printf '%s' '{answer}'
exit 2
"""


def answering(*problems: dict[str, str]) -> bytes:
    """A launcher that finds these problems; to read its configuration is the business of the real one."""
    answer = {"ok": not problems, "problems": problems, "need_host_bytes": 1, "need_gpu_bytes": 0}
    return ANSWER.format(answer=json.dumps(answer | {"config_sha256": "0" * 64})).encode()


def problem(where: str) -> dict[str, str]:
    return {"where": where, "message": "it is wrong"}


def test_problems_of_every_host_are_told_from_those_of_this_one(
    make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    wheres = ["daemon.colour", "circuits.0 (mul)", "circuits.1 (far)", "circuits", "circuit mul", "gpus.devices"]
    artifact = make_artifact(launcher=answering(*map(problem, [*wheres, "memory.budget"])))
    config = make_config()
    here = check_here(artifact, config)
    assert here.sentence == "the configuration was checked here by the artifact"
    assert [finding.where for finding in here.findings] == ["daemon.colour", "circuits.0 (mul)", "gpus.devices"]
    explicit = load_configuration(None, circuits={"mul": config.circuits["mul"].path}, budget="1GiB")
    found = [finding.where for finding in check_here(artifact, explicit).findings]
    assert found == ["daemon.colour", "--circuit mul", "circuits", "circuit mul", "gpus.devices"]
    assert {finding.severity for finding in here.findings} == {"error"}


def test_a_gpu_that_is_not_here_may_be_there_and_a_backend_that_is_none_is_none_anywhere(
    make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    artifact = make_artifact(launcher=answering(problem("gpus.backend")))
    for backend, found in (("cuda", []), ("gpu", ["gpus.backend"])):
        (tmp_path / "c.toml").write_text(f'[gpus]\nbackend = "{backend}"\n')
        config = load_configuration(tmp_path / "c.toml")
        assert config.uses_gpu == (backend == "cuda")
        assert [finding.where for finding in check_here(artifact, config).findings] == found


def test_the_keys_of_this_machine_are_looked_at(
    make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    assert check_here(make_artifact(), make_config()).findings == []  # the small daemon looks for each key by digest


def test_what_only_a_gpu_needs_is_not_unpacked_here(
    make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    artifact = make_artifact(gpu=True)
    assert check_here(artifact, make_config()).findings == []
    release = cache_folder("releases") / artifact.manifest.build_id
    assert sorted(path.name for path in release.iterdir()) == ["app", "manifest.json", "native", "prover", "runtime"]


def test_a_problem_names_the_file_of_the_operator(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    witness = tmp_path / "witness.wtns"
    witness.write_bytes(b"wtns" + bytes(8))
    file = tmp_path / "c.toml"
    file.write_text(
        '[[circuits]]\nname = "far"\npath = "/on/the/host"\n[[circuits]]\nname = "mul"\npath = "witness.wtns"\n'
    )
    (found,) = check_by_tool(load_configuration(file)).findings
    assert found.message == f"circuits.1 (mul): {witness}: it is a witness (.wtns), not a proving key (.zkey)"
    assert found.hint == "name a proving key (.zkey) in its place"


def test_what_is_read_here_and_what_the_daemon_says_come_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("uvicorn")
    file = tmp_path / "c.toml"
    (tmp_path / "mul_final.zkey").touch()
    file.write_text(
        '[daemon]\nqueue_limit = 0\n[memory]\nbudget = "2 gigs"\nevict_idle = 3\n'
        '[[circuits]]\nname = "mul"\npath = "mul.zkey"\n'
    )
    assert cli.run(["deploy", "nobody@127.0.0.1:9", "--config", str(file)]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("target: ")]
    assert said[0] == "error: 4 problems:"
    parts = ["circuits.0.path of mul", "memory.budget", "daemon.queue_limit", "memory.evict_idle"]
    for number, (part, line) in enumerate(zip(parts, said[1::2], strict=True), 1):
        assert line.startswith(f"({number}) {file}: {part}")
    assert all(line.startswith("    hint: ") for line in said[2::2])
    assert "mul_final.zkey" in said[2]


def test_the_host_is_asked_where_the_configuration_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.toml"
    file.write_text("[memory]\nbudget = 3\n")
    place = ["local", "--remote-dir", str(tmp_path / "remote")]
    assert cli.run(["deploy", *place, "--config", str(file), "--need", "4000GiB"]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("(")]
    assert [line.partition(" ")[0] for line in said] == ["(1)", "(2)"]
    assert said[0].startswith(f"(1) {file}: memory.budget: 3 is not a size")
    assert said[1].startswith("(2) the new daemon needs 3.91 TiB")
    assert not (tmp_path / "remote").exists()


def test_what_would_be_refused_next_comes_with_the_first_refusal(
    host: Host, layout: Layout, make_request: Callable[..., DeployRequest], recorder: Recorder
) -> None:
    Path(layout.lock).rmdir()
    request = make_request(launcher=answering(problem("daemon.colour")), need_bytes=1 << 60)
    with pytest.raises(UsageError) as refused:
        deploy(host, layout, request, recorder)
    assert recorder.steps[-1] == "preflight"
    (memory, colour) = [line for line in refused.value.message.splitlines() if line.startswith("(")]
    assert "the new daemon needs" in memory
    assert colour == "(2) daemon.colour: it is wrong"


def test_a_key_on_the_host_is_called_by_its_circuit_and_by_the_file_it_came_from(
    layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    config = make_config()
    release = release_of("R", make_artifact(), config)
    key = config.circuits["mul"]
    there = f"{layout.circuits}/{key.sha256}"
    told = keys_named(f"{there}: it was cut", layout, release)
    assert told == f"{key.path} (circuit mul, {there} on the host): it was cut"
    told = keys_named(f"{there}: it was cut", layout, replace(release, sources={}))
    assert told == f"the key of circuit mul ({there} on the host): it was cut"


def test_what_does_not_answer_is_no_verdict(
    make_artifact: Callable[..., Artifact],
    make_config: Callable[..., DeployConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    here = check_here(make_artifact(launcher=b"#!/bin/sh\nexit 139\n"), make_config())
    assert here.findings == []
    assert here.sentence == "the configuration is checked on the host: the artifact does not run here"


def test_the_prover_beside_this_tool_is_asked_where_the_artifact_does_not_run(
    make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn")
    config = tmp_path / "c.toml"
    config.write_text('[daemon]\ncolour = "x"\n')
    artifact = make_artifact()
    foreign = type(artifact)(
        artifact.directory, artifact.manifest.model_copy(update={"target": "riscv64-linux-gnu", "glibc_floor": "9.9"})
    )
    assert "it is for riscv64-linux-gnu" in why_not_here(foreign)
    here = check_here(foreign, load_configuration(config))
    assert here.sentence.endswith("by the prover beside this tool")
    assert any("colour" in finding.where for finding in here.findings)


def test_a_point_that_is_off_its_curve_is_found_before_anything_travels(
    make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn")
    data = bytearray((Path(__file__).parents[1] / "data" / "groth16" / "mul60" / "circuit.zkey").read_bytes())
    data[70000] ^= 1  # in the last point of section 9
    key = tmp_path / "flipped.zkey"
    key.write_bytes(data)
    artifact = make_artifact()
    foreign = type(artifact)(
        artifact.directory, artifact.manifest.model_copy(update={"target": "riscv64-linux-gnu", "glibc_floor": "9.9"})
    )
    (finding,) = check_here(foreign, load_configuration(None, circuits={"mul60": key})).findings
    assert finding.where == "--circuit mul60"
    assert "expected a point of the curve" in finding.message


def test_a_wrong_configuration_is_refused_before_anything_travels(
    host: Host,
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    recorder: Recorder,
) -> None:
    Path(layout.lock).rmdir()
    request = make_request(launcher=answering(problem("daemon.colour"), problem("synthesis.threads")))
    with pytest.raises(UsageError, match=r"2 problems:\n\(1\) daemon.colour: it is wrong\n\(2\) synthesis.threads: "):
        deploy(host, layout, request, recorder)
    assert recorder.steps[-1] == "preflight of the build"
    assert not Path(layout.layers).exists()


def test_a_ship_by_hand_refuses_it_too(
    make_artifact: Callable[..., Artifact], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact = make_artifact(launcher=answering(problem("daemon.colour")))
    place = ["local", "--remote-dir", str(tmp_path / "remote")]
    assert cli.run(["ship", *place, "--artifact", str(artifact.directory), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "daemon.colour: it is wrong"
    assert not (tmp_path / "remote").exists()


def test_problems_of_configuration_and_host_come_in_one_message() -> None:
    answer = CheckAnswer(
        ok=False,
        problems=[Problem(where="circuits.0", message="it is not there", hint="ship it")],
        need_host_bytes=1,
        need_gpu_bytes=0,
        config_sha256="0" * 64,
    )
    findings = [Finding("memory", "error", "memory", "too little memory", "stop it"), Finding("x", "warning", "y", "z")]
    with pytest.raises(UsageError) as refused:
        raise_problems(answer, findings)
    assert refused.value.message.splitlines()[1:] == [
        "(1) circuits.0: it is not there",
        "    hint: ship it",
        "(2) memory: too little memory",
        "    hint: stop it",
    ]
    assert refused.value.hint == ""
    with pytest.raises(UsageError) as refused:
        raise_problems(answer)
    assert refused.value.message.splitlines()[1:] == ["circuits.0: it is not there"]
    assert refused.value.hint == "ship it"


@pytest.fixture
def assembling(make_artifact: Callable[..., Artifact], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """A builder that makes another small artifact each time; says how many builds run at once at most."""
    running, most, n_built = 0, 0, 0
    guard = threading.Lock()

    def assemble(recipe: Recipe, progress: Callable[[str], None]) -> None:
        nonlocal running, most, n_built
        with guard:
            running, n_built = running + 1, n_built + 1
            most = max(most, running)
            app = f"build {n_built}"
        progress(app)
        for path in make_artifact(app=app).directory.iterdir():
            (recipe.out / path.name).write_bytes(path.read_bytes())
        with guard:
            running -= 1

    monkeypatch.setattr(build_step, "assemble", assemble)
    return lambda: most


def test_a_deploy_keeps_what_it_built_whatever_is_built_there_meanwhile(
    assembling: Callable[[], int], tmp_path: Path
) -> None:
    request = BuildRequest("local", tmp_path / "build" / "artifact")
    with built(request, lambda _: None) as mine:
        other = build(request, lambda _: None)
        assert other.manifest.build_id != mine.manifest.build_id
        assert other.directory == request.out
        assert build_step.load_artifact(mine.directory).manifest == mine.manifest
    assert assembling() == 1
    assert sorted(path.name for path in request.out.parent.iterdir()) == ["artifact"]


def test_two_builds_into_one_folder_take_turns(tmp_path: Path) -> None:
    out = tmp_path / "artifact"
    said: list[str] = []
    entered = threading.Event()

    def wait_for_turn() -> None:
        with turn(out, said.append, time.monotonic() + 60):
            entered.set()

    with turn(out, said.append, time.monotonic() + 60):
        waiting = threading.Thread(target=wait_for_turn)
        waiting.start()
        wait_until(lambda: bool(said))
        assert not entered.is_set()
        with (
            pytest.raises(TimeoutExpired, match=f"another cuzkops .pid {os.getpid()}. builds into .*, and did not end"),
            turn(out, said.append, time.monotonic()),
        ):
            pass
    waiting.join(60)
    assert entered.is_set()
    assert said[0] == f"another cuzkops (pid {os.getpid()}) builds into {out}: waiting for it"


def test_what_killed_builds_left_is_removed_and_what_others_hold_is_not(tmp_path: Path) -> None:
    out = tmp_path / "artifact"
    dead, held = tmp_path / ".artifact-cuzkops-dead0000", tmp_path / ".artifact-cuzkops-held0000"
    for folder in (dead, held):
        (folder / "inside").mkdir(parents=True)
        os.utime(folder, (0, 0))
    handle = os.open(held, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with workspace(out) as mine, workspace(out) as second:
            assert mine != second
            assert not dead.exists()
            assert held.exists()
            assert mine.exists()
    finally:
        os.close(handle)
    assert [path.name for path in tmp_path.iterdir()] == [".artifact-cuzkops-held0000"]
