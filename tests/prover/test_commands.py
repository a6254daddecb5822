"""``prover vkey``, ``info``, ``setup`` and ``prove --r1cs``, as users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from groth16_files import CIRCUITS, host, join, path_of, split
from r1cs_files import ptau, r1cs_sections, write_circuit
from shapes import SHAPES, powers

from prover import progress
from prover.cli import main
from prover.formats.field import KNOWN_PRIMES
from prover.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
BN254_R, BN254_P = list(KNOWN_PRIMES)[:2]


@pytest.fixture(autouse=True)
def _library() -> None:
    host()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def run(*arguments: str | Path) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


Run = Any


class TestVkey:
    @pytest.mark.parametrize("circuit", CIRCUITS)
    def test_is_the_one_of_snarkjs(self, run: Run, tmp_path: Path, circuit: str) -> None:
        expected = path_of(circuit, "verification_key.json").read_text()
        out = tmp_path / "vkey.json"
        assert run("vkey", path_of(circuit, "circuit.zkey"), out) == (0, "", "")
        assert out.read_text() == expected
        assert run("vkey", path_of(circuit, "circuit.zkey")) == (0, expected + "\n", "")

    def test_of_a_key_with_a_point_outside_the_subgroup_is_refused(self, run: Run, tmp_path: Path) -> None:
        sections = split(path_of("mul60", "circuit.zkey").read_bytes())
        two = (2 * 2**384 % list(KNOWN_PRIMES)[3]).to_bytes(48, "little")
        sections[3][96:192] = bytes(48) + two
        (tmp_path / "c.zkey").write_bytes(join("zkey", 1, sections))
        status, _, said = run("vkey", tmp_path / "c.zkey", tmp_path / "vkey.json")
        assert status == 2
        assert "section 3 (IC), point 1 at byte" in said
        assert not (tmp_path / "vkey.json").exists()

    def test_does_not_overwrite_the_key(self, run: Run) -> None:
        path = path_of("mul60", "circuit.zkey")
        assert run("vkey", path, path)[0] == 2


def facts(run: Run, path: Path) -> Any:
    status, out, said = run("info", path, "--json")
    assert (status, said) == (0, ""), said
    assert out.count("\n") == 1
    return json.loads(out)


def groth16_key_of(base: int, n_bytes: int) -> bytes:
    """A zkey over any curve, all zeros: 2 wires, none public, a domain of 1."""
    sections = {1: bytearray(b"\1\0\0\0")}
    header = n_bytes.to_bytes(4, "little") + base.to_bytes(n_bytes, "little")
    header += (32).to_bytes(4, "little") + BN254_R.to_bytes(32, "little")
    header += b"".join(n.to_bytes(4, "little") for n in (2, 0, 1))
    sections[2] = bytearray(header) + bytearray(18 * n_bytes)
    sections[4] = bytearray(4)
    for kind, n_points in ((3, 1), (5, 2), (6, 2), (7, 4), (8, 1), (9, 1)):
        sections[kind] = bytearray(n_points * 2 * n_bytes)
    return join("zkey", 1, sections)


class TestInfo:
    def test_of_a_key(self, run: Run) -> None:
        found = facts(run, path_of("mul60", "circuit.zkey"))
        assert len(found.pop("sections")) == 10
        assert found == {
            "format": "zkey",
            "version": 1,
            "protocol": "groth16",
            "curve": "BLS12-381",
            "n_vars": 120,
            "n_public": 1,
            "domain_size": 64,
            "n_coefficients": 120,
            "file_bytes": 70752,
        }

    def test_of_other_formats(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "p.ptau").write_bytes(ptau(2, prepared=True))
        assert facts(run, path_of("mul60", "witness.wtns"))["n_witness"] == 120
        r1cs = facts(run, path_of("mul60", "circuit.r1cs"))
        assert (r1cs["n_constraints"], r1cs["n_wires"], r1cs["domain_size"]) == (59, 120, 64)
        found = facts(run, tmp_path / "p.ptau")
        assert (found["power"], found["prepared"], found["curve"]) == (2, True, "BLS12-381")

    def test_of_documents(self, run: Run) -> None:
        assert facts(run, path_of("cube500", "public.json")) == {"format": "public", "n_public": 2}
        proof = facts(run, path_of("cube500", "proof.json"))
        assert proof == {"format": "proof", "protocol": "groth16", "curve": "BLS12-381"}
        vkey = facts(run, path_of("cube500", "verification_key.json"))
        assert (vkey["format"], vkey["n_public"]) == ("verification key", 2)

    def test_of_bn254(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "c.r1cs").write_bytes(join("r1cs", 1, r1cs_sections(SHAPES["linear"], BN254_R)))
        (tmp_path / "c.zkey").write_bytes(groth16_key_of(BN254_P, 32))
        (tmp_path / "proof.json").write_text(json.dumps({"pi_a": [], "protocol": "groth16", "curve": "bn128"}))
        for name in ("c.r1cs", "c.zkey", "proof.json"):
            assert facts(run, tmp_path / name)["curve"] == "BN254"
        status, _, said = run("vkey", tmp_path / "c.zkey")
        assert status == 2
        assert "found the base field of BN254 (bn128)" in said

    def test_of_plonk(self, run: Run, tmp_path: Path) -> None:
        sections = split(groth16_key_of(BN254_P, 32))
        sections[1][0] = 2
        (tmp_path / "c.zkey").write_bytes(join("zkey", 1, sections))
        found = facts(run, tmp_path / "c.zkey")
        assert (found["protocol"], found["curve"]) == ("plonk", "BN254")
        status, _, said = run("vkey", tmp_path / "c.zkey")
        assert status == 2
        assert "expected 1 (Groth16), found 2 (PLONK)" in said

    def test_for_people(self, run: Run, tmp_path: Path) -> None:
        raw = path_of("mul60", "witness.wtns").read_bytes()
        (tmp_path / "w.wtns").write_bytes(raw[:8] + b"\4\0\0\0" + raw[12:] + raw[12:])
        status, out, said = run("info", tmp_path / "w.wtns")
        assert (status, said) == (0, "")
        assert "curve       BLS12-381\n" in out
        assert "section 2  values                             3840 bytes at 76, 2 times: the first counts" in out

    @pytest.mark.parametrize("data", [b"", b"7", b"{}", b"hello", b"\x7fELF", b"[" * 10000, b'{"pi_a": NaN}'])
    def test_of_something_else(self, run: Run, tmp_path: Path, data: bytes) -> None:
        (tmp_path / "x").write_bytes(data)
        status, out, said = run("info", tmp_path / "x", "--json")
        assert status == 2
        assert set(json.loads(out)["error"]) == {"code", "message", "hint", "details"}
        assert said.startswith(f"error: {tmp_path / 'x'}")

    @pytest.mark.timeout(5)
    def test_of_what_is_no_file(self, run: Run, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path, tmp_path / "pipe", tmp_path / "missing"):
            assert run("info", path)[0] == 2


class TestProveWithConstraints:
    def test_satisfied(self, run: Run, tmp_path: Path) -> None:
        files = [path_of("mul60", name) for name in ("circuit.zkey", "witness.wtns")]
        outputs = [tmp_path / "proof.json", tmp_path / "public.json"]
        assert run("prove", *files, *outputs, "--r1cs", path_of("mul60", "circuit.r1cs")) == (0, "", "")
        assert run("verify", path_of("mul60", "verification_key.json"), outputs[1], outputs[0])[0] == 0

    @pytest.mark.parametrize("wrong", [1, 8, 15])
    def test_first_unsatisfied_constraint_is_named(self, run: Run, tmp_path: Path, wrong: int) -> None:
        circuit = powers(15)
        circuit.witness[wrong + 1] ^= 1  # constraint i makes wire i + 2 of wire i + 1, counted from 0
        r1cs, wtns = write_circuit(tmp_path, circuit)
        assert run("setup", "--insecure", r1cs, tmp_path / "c.zkey")[0] == 0
        before = sorted(tmp_path.iterdir())
        outputs = [tmp_path / "proof.json", tmp_path / "public.json"]
        status, _, said = run("prove", tmp_path / "c.zkey", wtns, *outputs, "--r1cs", r1cs)
        assert status == 3
        assert f"does not satisfy constraint {wrong - 1} of {r1cs} (counted from 0; " in said
        assert f"its wires are A: {wrong}, B: {wrong}, C: {wrong + 1}\n" in said
        assert str(circuit.witness[wrong + 1]) not in said.replace(str(tmp_path), "")
        assert run("prove", tmp_path / "c.zkey", wtns, *outputs)[0] == 3
        assert sorted(tmp_path.iterdir()) == before

    def test_of_another_circuit_is_called_that(self, run: Run, tmp_path: Path) -> None:
        files = [path_of("mul60", name) for name in ("circuit.zkey", "witness.wtns")]
        outputs = [tmp_path / "proof.json", tmp_path / "public.json"]
        status, _, said = run("prove", *files, *outputs, "--r1cs", path_of("cube500", "circuit.r1cs"))
        assert status == 2
        assert "has 1003 wires, and the circuit of" in said

    @pytest.mark.parametrize("name", ["circuit.zkey", "witness.wtns", "circuit.r1cs"])
    def test_every_input_may_not_be_an_output(self, run: Run, tmp_path: Path, name: str) -> None:
        inputs = {n: tmp_path / n for n in ("circuit.zkey", "witness.wtns", "circuit.r1cs")}
        for n, path in inputs.items():
            path.write_bytes(path_of("mul60", n).read_bytes())
        arguments = [inputs["circuit.zkey"], inputs["witness.wtns"], tmp_path / "proof.json", inputs[name]]
        status, _, said = run("prove", *arguments, "--r1cs", inputs["circuit.r1cs"])
        assert status == 2
        assert "is an input" in said


class TestSetup:
    def test_needs_its_flag_and_says_what_it_is(self, run: Run, tmp_path: Path) -> None:
        r1cs, zkey = path_of("mul60", "circuit.r1cs"), tmp_path / "c.zkey"
        status, _, said = run("setup", r1cs, zkey)
        assert status == 2
        assert "add --insecure" in said
        assert not zkey.exists()
        status, out, said = run("setup", "--insecure", r1cs, zkey)
        assert (status, out) == (0, "")
        assert said.count("INSECURE") == 2

    def test_a_wrong_circuit_leaves_what_was_there(self, run: Run, tmp_path: Path) -> None:
        (tmp_path / "c.r1cs").write_bytes(path_of("mul60", "circuit.r1cs").read_bytes()[:-1])
        (tmp_path / "c.zkey").write_text("old")
        status, _, said = run("setup", "--insecure", tmp_path / "c.r1cs", tmp_path / "c.zkey")
        assert status == 2
        assert "c.r1cs: section 3, number 3 of 3 at byte" in said
        assert sorted(path.name for path in tmp_path.iterdir()) == ["c.r1cs", "c.zkey"]
        assert (tmp_path / "c.zkey").read_text() == "old"

    def test_a_full_disk_is_said_before_the_work(self, run: Run, tmp_path: Path, monkeypatch: Any) -> None:
        import shutil

        usage = shutil.disk_usage(tmp_path)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
        status, _, said = run("setup", "--insecure", path_of("mul60", "circuit.r1cs"), tmp_path / "c.zkey")
        assert status == 2
        assert "and 1000 are free there" in said

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_leaves_nothing(self, tmp_path: Path, number: signal.Signals) -> None:
        r1cs = path_of("merkle_mimc5", "circuit.r1cs")
        with subprocess.Popen(
            [sys.executable, "-m", "prover", "setup", "--insecure", r1cs, tmp_path / "c.zkey", "--threads", "1"],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
        ) as process:
            end_s = time.monotonic() + 60
            while not list(tmp_path.glob(".c.zkey.*.part")):  # it has begun to write
                assert time.monotonic() < end_s
                assert process.poll() is None
                time.sleep(0.005)
            process.send_signal(number)
            assert process.stderr is not None
            said = process.stderr.read()
            assert process.wait(60) == 130, said
        assert list(tmp_path.iterdir()) == []


class TestProgress:
    def test_short_work_says_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        with Progress("adding") as shown:
            shown.stage("adding more", 0.5)
        assert capsys.readouterr().err == ""

    def test_long_work_says_what_it_does(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(progress, "SILENT_S", 0.01)
        monkeypatch.setattr(progress, "TERMINAL_EVERY_S", 0.01)
        with Progress("adding") as shown:
            time.sleep(0.3)
            shown.stage("multiplying", 0.25)
            time.sleep(0.3)
        lines = capsys.readouterr().err.splitlines()
        assert [line.rpartition(" (")[0] for line in lines] == ["adding", "multiplying 25%"]
