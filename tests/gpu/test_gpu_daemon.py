"""A daemon whose backend is the device: jobs through ``prover ctl``, verified proofs, and its timing log."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover.verify import verify

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
CIRCUITS = ROOT / "cuzkops" / "demo_data"
NAMES = ("mul60", "cube500")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def ask(home: Path, *arguments: str) -> Any:
    command = [sys.executable, "-m", "prover", "ctl", *arguments, "--home", str(home), "--json"]
    done = subprocess.run(command, capture_output=True, env=ENVIRONMENT, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)


def test_a_daemon_proves_on_the_device(cuda: CudaBackend) -> None:
    sections = [f'[[circuits]]\nname = "{name}"\npath = "{CIRCUITS / name / "circuit.zkey"}"\n' for name in NAMES]
    with tempfile.TemporaryDirectory(prefix="prover-gpu-") as folder:  # a socket's path must be short
        config, home = Path(folder) / "prover.toml", Path(folder) / "prover"
        config.write_text("\n".join(['[gpus]\nbackend = "cuda"\nworkers = 2\n', *sections]))
        command = [sys.executable, "-m", "prover", "serve", "--config", str(config), "--remote-dir", folder]
        with (Path(folder) / "stderr").open("wb") as stderr:
            daemon = subprocess.Popen(command, env=ENVIRONMENT, stderr=stderr)
        try:
            ask(home, "ready", "--wait-s", "60")
            for name in NAMES:
                witness = str(CIRCUITS / name / "witness.wtns")
                answer = ask(home, "prove", "--circuit", name, "--witness-path", witness, "--count", "3")
                assert (answer["state"], len(answer["proofs"])) == ("done", 3)
                vkey = json.loads((CIRCUITS / name / "verification_key.json").read_text())
                for record in answer["proofs"]:
                    verify(vkey, record["public"], record["proof"])
            daemon.terminate()
            assert daemon.wait(60) == 0
        finally:
            daemon.kill()
            daemon.wait()
        (log,) = (home / "logs").glob("*.log")
        lines = log.read_text().splitlines()
    assert "backend=cuda" in lines[0]
    phases = [line for line in lines if line.startswith("CUZK_TIMING ")]
    assert len(phases) == 6
    for line in phases:
        words = dict(word.split("=", 1) for word in line.split()[1:])
        assert words["dev"] == cuda.device
        assert min(int(words[key]) for key in ("ntt_msm_h_us", "tail_msm_us", "b_g2_msm_us")) > 0
