"""A rented host as an operator meets it: somebody's process holds the memory, and our daemon shall run there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from host_kinds import host_peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.steps.build import Artifact

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
CIRCUITS = HERE.parent / "data" / "groth16"
HOLDER_MIB = 2048


@dataclass(frozen=True)
class Container:
    """A running container with sshd in it."""

    docker: str
    id: str
    target: str
    key: Path
    env: dict[str, str]

    def execute(self, *command: str) -> str:
        return subprocess.run(
            [self.docker, "exec", "-u", "ops", self.id, *command], capture_output=True, text=True, check=True
        ).stdout

    def cuzkops(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "cuzkops", *arguments],
            capture_output=True,
            check=False,
            env=self.env,
            text=True,
            timeout=300,
        )
        assert done.returncode == status, f"{arguments} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


@pytest.fixture
def container(docker: str, tmp_path: Path) -> Iterator[Container]:
    """A host with 3 GiB: sshd, no Python, no compiler, glibc 2.31."""
    with host_peer("debian") as peer:
        env = os.environ | {
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "CUZKOPS_KNOWN_HOSTS": str(tmp_path / "known_hosts"),
        }
        yield Container(docker, peer.container, str(peer.target), peer.folder.parent / "id", env)


@pytest.fixture
def holder(container: Container, tmp_path: Path) -> int:
    """A process started by hand that holds 2 GiB; returns its PID in the container."""
    binary = tmp_path / "old-prover"
    subprocess.run(["gcc", "-static", "-O1", "-o", str(binary), str(HERE / "testhost" / "hog.c")], check=True)
    subprocess.run([container.docker, "cp", str(binary), f"{container.id}:/home/ops/old-prover"], check=True)
    start = f"setsid /home/ops/old-prover {HOLDER_MIB} >/home/ops/out 2>&1 </dev/null & echo $!"
    pid = int(container.execute("sh", "-c", start))
    deadline = time.monotonic() + 60
    while "holding" not in container.execute("cat", "/home/ops/out"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return pid


def test_first_contact(
    container: Container, holder: int, docker_artifact: Artifact, tmp_path: Path, snarkjs: str
) -> None:
    config = tmp_path / "prover.toml"
    config.write_text(
        f'[memory]\nbudget = "2GiB"\n\n[[circuits]]\nname = "mul60"\npath = "{CIRCUITS / "mul60" / "circuit.zkey"}"\n'
    )
    access = ["-i", str(container.key)]
    deploy = ["deploy", container.target, *access, "--config", str(config)]
    deploy += ["--artifact", str(docker_artifact.directory)]

    # Refused before anything is touched, and the sentence names who is in the way and what to do.
    refused = container.cuzkops(*deploy, status=2)
    for expected in (str(holder), "/home/ops/old-prover", "2.0", f"kill --pid {holder}"):
        assert expected in refused.stderr
    assert container.execute("ls", "-a", "/home/ops").find(".cuzkops") < 0
    assert container.execute("cat", f"/proc/{holder}/comm").strip() == "old-prover"

    # No terminal and no --yes: shown, not killed. Then killed, and only that one.
    container.cuzkops("kill", *access, "--pid", str(holder), status=2)
    assert container.execute("cat", f"/proc/{holder}/comm").strip() == "old-prover"
    killed = container.cuzkops("kill", *access, "--pid", str(holder), "--yes")
    assert "/home/ops/old-prover" in killed.stderr + killed.stdout
    assert "old-prover" not in container.execute("sh", "-c", "cat /proc/[0-9]*/comm")
    container.cuzkops("wait-memory", *access)

    container.cuzkops(*deploy)
    container.cuzkops(
        "prove",
        "mul60",
        str(CIRCUITS / "mul60" / "witness.wtns"),
        *access,
        "--count",
        "3",
        "--out",
        str(tmp_path / "out"),
    )
    proofs = sorted((tmp_path / "out").rglob("proof*.json"))
    assert len(proofs) == 3
    for proof in proofs:
        public = proof.with_name(proof.name.replace("proof", "public"))
        vkey = CIRCUITS / "mul60" / "verification_key.json"
        said = subprocess.run(
            [snarkjs, "groth16", "verify", str(vkey), str(public), str(proof)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "OK!" in said.stdout

    parsed = json.loads(container.cuzkops("logs", *access, "--parse", "--json").stdout)
    assert parsed["n_bad_lines"] == 0
    status = json.loads(container.cuzkops("status", *access, "--json").stdout)
    assert status["answer"]["daemon"]["build_id"] == docker_artifact.manifest.build_id

    container.cuzkops("kill", *access, "--yes")
    container.cuzkops("wait-memory", *access)
