"""Files in, files out: what is written, and that nothing is when something fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from groth16_files import CIRCUITS, host, join, path_of, split

from prover import commands
from prover.commands import prove_files, verify_files
from prover.errors import InputError, ProofInvalidError, ProverError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _library() -> None:
    host()


def prove(folder: Path, circuit: str = "mul60", wtns: Path | None = None, threads: int | None = 2) -> None:
    witness = wtns or path_of(circuit, "witness.wtns")
    prove_files(path_of(circuit, "circuit.zkey"), witness, folder / "proof.json", folder / "public.json", threads)


def unsatisfied(folder: Path) -> Path:
    sections = split(path_of("mul60", "witness.wtns").read_bytes())
    sections[2][32 * 5] ^= 1
    folder.joinpath("bad.wtns").write_bytes(join("wtns", 2, sections))
    return folder / "bad.wtns"


@pytest.mark.parametrize("circuit", CIRCUITS)
def test_files_are_written_and_verify(tmp_path: Path, circuit: str) -> None:
    prove(tmp_path, circuit)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proof.json", "public.json"]
    assert (tmp_path / "public.json").read_bytes() == path_of(circuit, "public.json").read_bytes()
    verify_files(path_of(circuit, "verification_key.json"), tmp_path / "public.json", tmp_path / "proof.json")


def test_proofs_of_snarkjs_verify_and_mixed_ones_do_not() -> None:
    files = [path_of("mul60", f"{name}.json") for name in ("verification_key", "public", "proof")]
    verify_files(*files)
    with pytest.raises(ProofInvalidError):
        verify_files(files[0], files[1], path_of("merkle_mimc5", "proof.json"))


def test_invalid_proof_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "proof.json").write_text("old")
    with pytest.raises(ProofInvalidError) as caught:
        prove(tmp_path, wtns=unsatisfied(tmp_path))
    assert caught.value.exit_status == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.wtns", "proof.json"]
    assert (tmp_path / "proof.json").read_text() == "old"


def test_outputs_are_checked_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "load_key", lambda *_: pytest.fail("work was begun"))
    zkey, wtns = path_of("mul60", "circuit.zkey"), path_of("mul60", "witness.wtns")
    out = tmp_path / "x.json"
    for proof, public, match in (
        (out, out, "cannot both go to"),
        (out, wtns, "is an input"),
        (tmp_path, out, "not a regular file"),
        (tmp_path / "missing" / "proof.json", out, "not a folder to write into"),
        (Path(os.devnull), out, "not a regular file"),
    ):
        with pytest.raises(InputError, match=match):
            prove_files(zkey, wtns, proof, public, None)
    with pytest.raises(InputError, match="at least 1, not 0"):
        prove(tmp_path, threads=0)
    assert list(tmp_path.iterdir()) == []


def test_missing_library_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.host import backend

    monkeypatch.setenv("CUZKOPS_NATIVE_DIR", str(tmp_path))
    monkeypatch.setattr(backend, "load_library", backend.load_library.__wrapped__)
    with pytest.raises(ProverError, match="build it with"):
        prove(tmp_path)


def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        prove(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_failed_second_rename_takes_the_first_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def refuse_public(self: Path, target: Path) -> Path:
        if target.name == "public.json":
            raise OSError(5, "Input/output error", str(target))
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refuse_public)
    with pytest.raises(InputError, match=r"public\.json cannot be written"):
        prove(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_interrupt_between_the_renames_waits_for_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        signal.raise_signal(signal.SIGINT)
        return moved

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prove(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["proof.json", "public.json"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_in_the_middle_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import signal, sys, time\nfrom pathlib import Path\nfrom prover import commands\n"
        "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
        "commands.check = lambda *_: (print('proved', flush=True), time.sleep(30))\n"  # before anything is written
        "commands.prove_files(*map(Path, sys.argv[1:]), 1)\n"
    )
    files = [path_of("merkle_mimc5", "circuit.zkey"), path_of("merkle_mimc5", "witness.wtns")]
    outputs = [tmp_path / "proof.json", tmp_path / "public.json"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *files, *outputs], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"proved\n"
        process.send_signal(number)
        assert process.wait(30) != 0
        assert process.stderr is not None
        assert b"KeyboardInterrupt" in process.stderr.read()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_does_not_wait_for_a_kernel(tmp_path: Path, number: signal.Signals) -> None:
    code = (
        "import ctypes, os, sys\nfrom prover import cli, commands\n"
        "sleep = ctypes.CDLL(None).sleep\n"  # stands for a kernel: C that knows nothing of signals
        "def kernel(*_):\n"
        "    print('in the kernel', flush=True)\n"
        "    while sleep(600): pass\n"
        "commands.prove_on_device = kernel\n"
        "sys.exit(cli.main(['prove', *sys.argv[1:]]))\n"
    )
    files = [path_of("mul60", "circuit.zkey"), path_of("mul60", "witness.wtns")]
    outputs = [tmp_path / "proof.json", tmp_path / "public.json"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *files, *outputs], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in the kernel\n"
        process.send_signal(number)
        assert process.wait(60) == 130
        assert process.stderr is not None
        assert process.stderr.read() == b"interrupted\n"
    assert list(tmp_path.iterdir()) == []
