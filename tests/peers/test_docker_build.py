"""The Docker builder for real: the same layout as the local one, an old glibc, and a start on a bare host."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.artifact.elf import glibc_floor
from cuzkops.artifact.layers import unpack_layers
from cuzkops.errors import UsageError
from cuzkops.steps.build import BuildRequest, build
from kernels.build_cuda import stages

if TYPE_CHECKING:
    from cuzkops.steps.build import Artifact

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[2]
GPU_ARCHS = os.environ.get("GPU_ARCHS") or "90 compute_80"
"""Enough to see that the artifact brings them: each architecture takes minutes to compile."""
MUL60 = ROOT / "tests" / "data" / "groth16" / "mul60"


@pytest.fixture(scope="session")
def docker_release(docker_artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    release = tmp_path_factory.mktemp("docker-release") / "release"
    release.mkdir()
    unpack_layers([docker_artifact.layer_path(layer) for layer in docker_artifact.manifest.layers], release)
    shutil.copy(docker_artifact.directory / "manifest.json", release)  # as a host has it
    return release


def unpacked(artifact: Artifact, layer: str) -> bytes:
    (path,) = (artifact.layer_path(found) for found in artifact.manifest.layers if found.name == layer)
    return gzip.decompress(path.read_bytes())


def names(artifact: Artifact, layer: str) -> set[str]:
    with tarfile.open(fileobj=io.BytesIO(unpacked(artifact, layer))) as archive:
        return {member.name for member in archive.getmembers() if member.isfile()}


def in_container(docker: str, image: str, *options: str, script: str) -> subprocess.CompletedProcess[str]:
    argv = [docker, "run", "--rm", "--network=none", *options, image, "sh", "-euc", script]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def test_layout_is_that_of_the_local_builder(docker_artifact: Artifact, local_artifact: Artifact) -> None:
    assert docker_artifact.manifest.builder == "docker"
    assert docker_artifact.manifest.runtime == "bundled"
    for layer in ("app", "native"):
        assert names(docker_artifact, layer) == names(local_artifact, layer)
    assert {"runtime/prover", "runtime/site-packages/fastapi/__init__.py"} <= names(docker_artifact, "runtime")
    # our Python is the same bytes, whoever packs it; how small gzip makes them is up to each machine's zlib
    assert unpacked(docker_artifact, "app") == unpacked(local_artifact, "app")


def test_floor_is_no_higher_than_that_of_bullseye(docker_release: Path, docker_artifact: Artifact) -> None:
    floor = glibc_floor(docker_release)
    assert floor is not None
    assert docker_artifact.manifest.glibc_floor == f"{floor[0]}.{floor[1]}"
    assert floor <= (2, 31)


def test_floor_agrees_with_binutils(docker_release: Path, docker_artifact: Artifact) -> None:
    files = [path for path in docker_release.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert len(files) > 50
    printed = subprocess.run(["readelf", "-VW", *files], capture_output=True, text=True, check=True).stdout
    needed = {(int(major), int(minor)) for major, minor in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", printed)}
    assert docker_artifact.manifest.glibc_floor == "{}.{}".format(*max(needed))


def test_starts_and_proves_on_a_host_without_python_and_compiler(
    docker: str, base_image: str, docker_artifact: Artifact, docker_release: Path, tmp_path: Path
) -> None:
    tmp_path.chmod(0o777)
    mounts = [f"--volume={docker_release}:/r:ro", f"--volume={MUL60}:/c:ro", f"--volume={tmp_path}:/out"]
    script = """
        for word in python3 python cc g++ gcc; do ! command -v $word || exit 9; done
        /r/prover --version
        cd /out
        /r/prover prove /c/circuit.zkey /c/witness.wtns proof.json public.json
        /r/prover verify /c/verification_key.json public.json proof.json
    """
    ended = in_container(docker, base_image, *mounts, "--user=12345:12345", script=script)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith(f"prover {docker_artifact.manifest.version}\n")
    assert json.loads((tmp_path / "public.json").read_text()) == json.loads((MUL60 / "public.json").read_text())


def test_daemon_is_one_process_and_writes_nothing_into_the_release(
    docker: str, base_image: str, docker_release: Path
) -> None:
    # $! is the launcher's PID: the executable behind it must be the release's own, with nothing below it
    script = """
        printf '[[circuits]]\\nname = "mul60"\\npath = "/c/circuit.zkey"\\n' >/tmp/config.toml
        /r/prover serve --config /tmp/config.toml --remote-dir /tmp/ops >/tmp/out 2>&1 & pid=$!
        n=0
        until grep -q '"ready"' /tmp/ops/prover/run/daemon.json 2>/dev/null; do
            n=$((n+1)); [ $n -lt 300 ] || { cat /tmp/out >&2; exit 9; }; sleep 0.1
        done
        readlink /proc/$pid/exe
        cat /proc/$pid/task/*/children
        kill -TERM $pid; wait $pid; echo ended $?
    """
    before = sorted(docker_release.rglob("*"))
    mounts = [f"--volume={docker_release}:/r", f"--volume={MUL60}:/c:ro"]
    ended = in_container(docker, base_image, *mounts, script=script)
    assert ended.stdout.splitlines() == ["/r/runtime/prover", "ended 0"], ended.stderr
    assert sorted(docker_release.rglob("*")) == before


def test_second_build_is_the_same_artifact(
    docker: str, base_image: str, docker_artifact: Artifact, tmp_path: Path
) -> None:
    request = BuildRequest(
        "docker", tmp_path / "again", base_image=base_image, gpu_archs="none", docker=docker, timeout_s=280
    )
    lines: list[str] = []
    again = build(request, lines.append)
    assert again.manifest.layers == docker_artifact.manifest.layers
    assert again.manifest.build_id == docker_artifact.manifest.build_id
    assert any("CACHED" in line for line in lines)


def test_with_kernels_of_a_gpu_the_release_brings_cupy_and_needs_a_driver_alone(
    docker: str, base_image: str, docker_artifact: Artifact, tmp_path: Path
) -> None:
    request = BuildRequest(
        "docker", tmp_path / "gpu", base_image=base_image, gpu_archs=GPU_ARCHS, docker=docker, timeout_s=1200
    )
    made = build(request, lambda _: None)
    layers = {layer.name: layer for layer in made.manifest.layers}
    assert list(layers) == ["runtime", "gpu", "native", "app"]
    for name in ("runtime", "app"):  # the same as without
        assert layers[name] in docker_artifact.manifest.layers
    assert names(made, "native") == {
        "native/libcuzkops_host.so",
        *(f"native/cuzkops_{stage}.fatbin" for stage in stages() if stage != "rates"),
    }
    assert made.manifest.glibc_floor == docker_artifact.manifest.glibc_floor
    release = tmp_path / "release"
    release.mkdir()
    unpack_layers([made.layer_path(layer) for layer in made.manifest.layers], release)
    mounts = [f"--volume={release}:/r:ro", f"--volume={MUL60}:/c:ro"]
    script = "/r/prover prove --backend cuda /c/circuit.zkey /c/witness.wtns /tmp/proof.json /tmp/public.json"
    ended = in_container(docker, base_image, *mounts, script=script)
    assert ended.returncode == 1
    assert "there is no CUDA device for the cuda backend: cudaErrorInsufficientDriver" in ended.stderr  # CuPy says it


def test_image_history_holds_nothing_of_this_machine(docker: str, base_image: str, docker_artifact: Artifact) -> None:
    assert docker_artifact.manifest.builder == "docker"
    arguments = [word for value in (f"BASE_IMAGE={base_image}", "GPU_ARCHS=none") for word in ("--build-arg", value)]
    made = subprocess.run(
        [docker, "build", "-q", "--target", "environment", *arguments, str(ROOT)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"DOCKER_BUILDKIT": "1"},
    )
    image = made.stdout.strip()
    history = subprocess.run(
        [docker, "history", "--no-trunc", image], capture_output=True, text=True, check=True
    ).stdout
    assert "://" not in history
    left = in_container(
        docker, image, script="ls -A /run/secrets 2>/dev/null || true; cat /etc/apt/apt.conf.d/99build || true"
    )
    assert left.stdout == ""


def test_engine_that_does_not_answer_has_one_sentence(
    docker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(UsageError, match="no Docker engine answers the client"):
        build(BuildRequest("docker", tmp_path / "out", docker=docker), lambda _: None)
    assert not (tmp_path / "out").exists()
