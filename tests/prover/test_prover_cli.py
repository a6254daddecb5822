"""The command line: statuses, sentences, one JSON document, and what is not imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kernels
import prover.cli
import prover.commands
import prover.config
from kernels.interface import KernelError
from prover import __version__
from prover.cli import main
from prover.errors import BusyError, CapacityError, InputError, ProofInvalidError, ProverError
from prover.formats.zkey import read_header
from prover.memory.estimate import least_on_device

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
MUL60 = ROOT / "tests" / "data" / "groth16" / "mul60"


@pytest.fixture(autouse=True)
def _keep_signal_handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"prover {__version__}\n"


@pytest.mark.parametrize("arguments", ["--version", "ctl ready --home /nowhere", "ctl --help"])
def test_light_commands_load_nothing_heavy(arguments: str) -> None:
    program = (
        "import sys\nfrom prover.cli import main\n"
        f"try:\n    main({arguments.split()!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('numpy', 'fastapi', 'uvicorn', 'kernels')))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["prove", "a", "b"],
        ["verify", "a", "b", "c", "d"],
        ["serve"],
        ["ctl"],
        ["ctl", "job"],
        ["ctl", "job", "x", "--wait-s", "soon"],
        ["ctl", "job", "x", "--wait-s", "-1"],
        ["ctl", "prove"],
        ["ctl", "submit", "--circuit", "a"],
        ["ctl", "prove", "--circuit", "a", "--count", "0"],
        ["ctl", "prove", "--circuit", "a", "--count", "257"],
    ],
)
def test_wrong_command_lines(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: prover")
    assert "Traceback" not in captured.err


def test_a_wrong_command_line_with_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ctl", "job", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "usage"
    assert set(document["error"]) == {"code", "message", "hint", "details"}


@pytest.mark.parametrize(
    ("raised", "status"),
    [
        (ProverError("x", "it failed", "do this"), 1),
        (BusyError("x", "it failed", "do this"), 1),
        (InputError("x", "it failed", "do this"), 2),
        (ProofInvalidError("x", "it failed", "do this"), 3),
        (CapacityError("x", "it failed", "do this"), 4),
    ],
)
def test_errors_become_sentences_and_statuses(
    raised: ProverError, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_verify(raised, monkeypatch) == status
    assert capsys.readouterr().err == "error: it failed\nhint: do this\n"


def test_an_interrupt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_verify(KeyboardInterrupt("job 5 goes on"), monkeypatch) == 130
    assert capsys.readouterr().err == "interrupted: job 5 goes on\n"


def test_a_fault_goes_to_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert run_verify(ZeroDivisionError("inside"), monkeypatch) == 70
    err = capsys.readouterr().err
    (path,) = tmp_path.glob("prover-fault-*.txt")
    assert str(path) in err
    assert "Traceback" not in err
    assert "ZeroDivisionError: inside" in path.read_text()


def run_verify(raised: BaseException, monkeypatch: pytest.MonkeyPatch) -> int:
    def fail(*_arguments: Any) -> None:
        raise raised

    monkeypatch.setattr(prover.commands, "verify_files", fail)
    return main(["verify", "a", "b", "c"])


def test_output_that_nobody_reads() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "prover", "verify", *proof_files()],
        cwd=ROOT,
        stdout=write_end,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")


def test_closed_standard_streams() -> None:
    command = f'exec "{sys.executable}" -m prover verify {" ".join(proof_files())} <&- >&- 2>&-'
    assert subprocess.run(["/bin/sh", "-c", command], cwd=ROOT, check=False, timeout=60).returncode == 0


def proof_files() -> list[str]:
    return [str(MUL60 / name) for name in ("verification_key.json", "public.json", "proof.json")]


def check(config: Path, *options: str) -> int:
    return main(["serve", "--config", str(config), "--remote-dir", str(config.parent), "--check-config", *options])


def test_check_of_the_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--config", str(ROOT / "playbooks/reference.toml"), "--check-config", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["ok"]
    assert answer["problems"] == []
    assert answer["need_gpu_bytes"] == 0
    assert answer["need_host_bytes"] > (MUL60 / "circuit.zkey").stat().st_size
    assert len(answer["config_sha256"]) == 64


def test_check_says_what_a_device_will_hold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.toml").write_text(
        f'[gpus]\nbackend = "cuda"\n[[circuits]]\nname = "mul60"\npath = "{MUL60 / "circuit.zkey"}"\n'
    )
    check(tmp_path / "config.toml", "--json")
    answer = json.loads(capsys.readouterr().out)
    need = least_on_device(read_header(MUL60 / "circuit.zkey"))
    assert answer["need_gpu_bytes"] == need.held_bytes + need.work_bytes
    assert {problem["where"] for problem in answer["problems"]} <= {"gpus.backend"}  # where there is no device


def test_a_device_need_not_hold_keys_that_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need, needs = least_on_device(read_header(MUL60 / "circuit.zkey")), []
    circuits = "".join(f"[[circuits]]\nname='{name}'\npath='{MUL60 / 'circuit.zkey'}'\n" for name in "ab")
    config = tmp_path / "config.toml"
    config.write_text(f"[gpus]\nbackend='cuda'\n{circuits}")
    check(config, "--json")
    together = json.loads(capsys.readouterr().out)["need_host_bytes"]  # both keys, and work beside them
    for budget in (together, together - 1):
        config.write_text(f"[gpus]\nbackend='cuda'\n[memory]\nbudget='{budget}B'\n{circuits}")
        check(config, "--json")
        needs.append(json.loads(capsys.readouterr().out)["need_gpu_bytes"])
    assert needs == [2 * need.held_bytes + need.work_bytes, need.held_bytes + need.work_bytes]


def test_check_names_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut.zkey"
    cut.write_bytes((MUL60 / "circuit.zkey").read_bytes()[:5000])
    config = tmp_path / "config.toml"
    config.write_text(
        f"[[circuits]]\nname='gone'\npath='gone.zkey'\n[[circuits]]\nname='cut'\npath='cut.zkey'\n"
        f"[[circuits]]\nname='wtns'\npath='{MUL60 / 'witness.wtns'}'\n"
        f"[[circuits]]\nname='digest'\nsha256='{'ab' * 32}'\n"
    )
    assert check(config, "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert not answer["ok"]
    found = {problem["where"] for problem in answer["problems"]}
    assert found == {"circuits.0 (gone)", "circuits.1 (cut)", "circuits.2 (wtns)", "circuits.3 (digest)"}


def test_check_of_a_wrong_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[daemon]\nnamex = 'x'\n")
    assert check(config, "--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["problems"][0]["where"] == "daemon.namex"
    assert check(config) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "did you mean name" in captured.err


def test_wrong_keys_and_wrong_values_are_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[daemon]\nqueue_limit = 0\n[[circuits]]\nname = 'neither'\n[[circuits]]\nname = 'gone'\npath = 'gone.zkey'\n"
    )
    assert check(config, "--json") == 2
    found = [problem["where"] for problem in json.loads(capsys.readouterr().out)["problems"]]
    assert found == ["daemon.queue_limit", "circuits.0", "circuits.1 (gone)"]


def test_check_without_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path / "config.toml", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "config-unreadable"


def test_an_explicit_budget_is_the_need(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[memory]\nbudget='2GiB'\n[[circuits]]\nname='a'\npath='{MUL60 / 'circuit.zkey'}'\n")
    assert check(config, "--json") == 0
    assert json.loads(capsys.readouterr().out)["need_host_bytes"] == 2 << 30


def test_a_budget_that_is_too_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[memory]\nbudget='1MiB'\n[[circuits]]\nname='a'\npath='{MUL60 / 'circuit.zkey'}'\n")
    assert check(config, "--json") == 4
    answer = json.loads(capsys.readouterr().out)
    assert answer["problems"][0]["where"] == "circuit a"
    assert "the budget is 1048576 bytes" in answer["problems"][0]["message"]


def test_circuits_that_fit_only_one_by_one_take_turns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    circuits = "".join(f"[[circuits]]\nname='c{i}'\npath='{MUL60 / 'circuit.zkey'}'\n" for i in range(40))
    config.write_text(circuits)
    check(config, "--json")
    together = json.loads(capsys.readouterr().out)["need_host_bytes"]
    config.write_text(f"[memory]\nbudget='{together - 1}B'\n{circuits}")
    assert check(config, "--json") == 0
    assert json.loads(capsys.readouterr().out)["need_host_bytes"] == together - 1


def test_a_backend_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[gpus]\nbackend = 'cuda'\n")
    try:
        kernels.backend("cuda").close()
    except KernelError as error:
        reason = str(error)
    else:
        pytest.skip("this machine has the backend")
    assert check(config, "--json") == 2
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert (problem["where"], problem["message"]) == ("gpus.backend", reason)


def test_serve_refuses_in_one_line(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[daemon]\nnamex = 'x'\n")
    command = [sys.executable, "-m", "prover", "serve", "--config", str(config), "--remote-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.decode().splitlines()[0].startswith(f"error: {config}: daemon.namex: there is no such key")
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_a_result_that_cannot_be_written() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "prover", "verify", *proof_files()],
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            text=True,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the result cannot be written to standard output: No space left")
    assert "Traceback" not in done.stderr


def test_an_interrupt_with_json_is_one_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: Any) -> None:
        raise KeyboardInterrupt("job 5 goes on")

    monkeypatch.setattr(prover.cli, "_info", fail)
    assert main(["info", "a", "--json"]) == 130
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["message"]) == ("interrupted", "interrupted: job 5 goes on")


def test_a_daemon_can_be_ended_while_it_reads_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    blocked: list[set[Any]] = []

    def read(*_arguments: Any) -> None:
        blocked.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        raise InputError("config", "it is a pipe without an end")

    monkeypatch.setattr(prover.config, "load_config", read)
    assert main(["serve", "--config", "a"]) == 2
    assert blocked == [set()]
