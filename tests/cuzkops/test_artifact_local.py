"""The artifact that this machine builds: whole, startable, the same every time, and kept as it was built."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzkops.artifact import runtime_bundled
from cuzkops.artifact.assemble import Recipe, assemble
from cuzkops.artifact.elf import glibc_floor
from cuzkops.artifact.layers import unpack_layers
from cuzkops.artifact.runtime import choose, runtime_layer
from cuzkops.artifact.source import revision
from cuzkops.steps.build import Artifact, load_artifact

ROOT = Path(__file__).parents[2]
MUL60 = ROOT / "tests" / "data" / "groth16" / "mul60"

# Stands in for the command line inside a release: imports every module of the daemon that the release holds.
IMPORT_ALL = """
import importlib, json, os, pathlib, sys
def main():
    app = pathlib.Path(os.environ["PROVER_RELEASE_DIR"], "app")
    names = [".".join(path.relative_to(app).with_suffix("").parts) for path in sorted(app.rglob("*.py"))]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith(".__main__")]
    modules = [importlib.import_module(name) for name in names]
    wheels = ["fastapi", "numpy", "prometheus_client", "py_arkworks_bls12381", "pynvml", "uvicorn", "h11", "anyio"]
    where = {name: importlib.import_module(name).__file__ for name in wheels}
    leaked = [name for name in os.environ if name.startswith(("LD_LIBRARY_PATH", "_PYI"))]
    print(json.dumps({"pid": os.getpid(), "modules": names, "where": where, "leaked": leaked}))
"""


def unpack(artifact: Artifact, release: Path) -> Path:
    release.mkdir()
    unpack_layers([artifact.layer_path(layer) for layer in artifact.manifest.layers], release)
    return release


@pytest.fixture(scope="session")
def unpacked(local_artifact: Artifact, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(local_artifact, tmp_path_factory.mktemp("unpacked") / "release")


@pytest.fixture
def release(unpacked: Path, tmp_path: Path) -> Path:
    """A release of its own for each test, of hard links as on a host: replace a file, never write into it."""
    return Path(shutil.copytree(unpacked, tmp_path / "release", copy_function=os.link))


@pytest.fixture(scope="session")
def on_host_python(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    out = tmp_path_factory.mktemp("host-python")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(ROOT / "build" / "test-cache"))
        assemble(Recipe(project=ROOT, out=out, runtime="host-python"), lambda _: None)
    return load_artifact(out)


def contents(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def environment() -> dict[str, str]:
    """Only what a login would have: nothing of the test's own Python."""
    return {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}


def test_layers_are_the_promised_rooms(release: Path, local_artifact: Artifact) -> None:
    assert sorted(path.name for path in release.iterdir()) == ["app", "native", "prover", "runtime"]
    assert [path.name for path in (release / "native").iterdir()] == ["libcuzkops_host.so"]
    assert sorted(path.name for path in (release / "app").iterdir()) == ["kernels", "prover"]
    app = {path.relative_to(release / "app").as_posix() for path in (release / "app").rglob("*") if path.is_file()}
    assert {"prover/cli.py", "prover/protocol.py", "kernels/interface.py", "kernels/host/backend.py"} <= app
    assert {Path(name).suffix for name in app} <= {".py", ".html", ".typed", ".service"}
    assert not any("src" in Path(name).parts or "gen" in Path(name).parts for name in app)
    assert local_artifact.manifest.builder == "local"


def test_manifest_tells_what_was_built(local_artifact: Artifact) -> None:
    manifest = local_artifact.manifest
    assert manifest.runtime == choose("auto", lambda _: None)
    assert manifest.target == f"{os.uname().machine}-linux-gnu"
    assert manifest.version == revision(ROOT).version
    assert re.fullmatch("[0-9a-f]{40}|", manifest.git)
    assert abs(manifest.built_unix_ns - time.time_ns()) < 3600 * 10**9


def test_floor_holds_for_every_elf_file(release: Path, local_artifact: Artifact) -> None:
    floor = glibc_floor(release)
    assert floor is not None
    assert local_artifact.manifest.glibc_floor == f"{floor[0]}.{floor[1]}"


def test_floor_is_met_by_this_machine(local_artifact: Artifact) -> None:
    major, minor = os.confstr("CS_GNU_LIBC_VERSION").split()[1].split(".")[:2]  # type: ignore[union-attr] # glibc
    floor = tuple(int(part) for part in local_artifact.manifest.glibc_floor.split("."))
    assert floor <= (int(major), int(minor))


def import_all(release: Path) -> tuple[int, dict[str, object]]:
    (release / "app" / "prover" / "cli.py").unlink()
    (release / "app" / "prover" / "cli.py").write_text(IMPORT_ALL)
    with subprocess.Popen([release / "prover"], env=environment(), stdout=subprocess.PIPE, cwd="/") as process:
        out = process.communicate(timeout=60)[0]
    assert process.returncode == 0
    return process.pid, json.loads(out)


def test_every_module_of_the_daemon_is_there_and_wheels_come_from_the_release(release: Path) -> None:
    before = contents(release)
    pid, found = import_all(release)
    assert found["pid"] == pid
    assert {"prover.daemon", "prover.groth16", "kernels.host.backend"} <= set(found["modules"])  # type: ignore[arg-type]
    site_packages = str(release / "runtime" / "site-packages")
    assert all(str(where).startswith(site_packages) for where in found["where"].values())  # type: ignore[attr-defined]
    assert contents(release).keys() == before.keys()  # no byte code, no cache


def test_children_do_not_inherit_what_the_bundle_set(release: Path) -> None:
    assert import_all(release)[1]["leaked"] == []


def test_host_python_release_imports_everything_too(on_host_python: Artifact, tmp_path: Path) -> None:
    manifest = on_host_python.manifest
    assert manifest.runtime == "host-python"
    assert manifest.host_python is not None
    assert manifest.host_python.version == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert manifest.host_python.path == os.path.realpath(manifest.host_python.path)
    release = unpack(on_host_python, tmp_path / "release")
    assert (release / "runtime" / "host-python").read_text() == (
        f"{manifest.host_python.version}\n{manifest.host_python.path}\n"
    )
    before = contents(release)
    pid, found = import_all(release)
    assert found["pid"] == pid
    site_packages = str(release / "runtime" / "site-packages")
    assert all(str(where).startswith(site_packages) for where in found["where"].values())  # type: ignore[attr-defined]
    assert contents(release).keys() == before.keys()


def test_both_kinds_differ_in_the_runtime_alone(local_artifact: Artifact, on_host_python: Artifact) -> None:
    digests = [
        {layer.name: layer.sha256 for layer in made.manifest.layers} for made in (local_artifact, on_host_python)
    ]
    assert digests[0]["app"] == digests[1]["app"]
    assert digests[0]["native"] == digests[1]["native"]


def test_proves_without_the_source_tree(release: Path, tmp_path: Path) -> None:
    before = contents(release)
    words = [MUL60 / "circuit.zkey", MUL60 / "witness.wtns", "proof.json", "public.json"]
    subprocess.run([release / "prover", "prove", *words], check=True, cwd=tmp_path, env=environment(), timeout=120)
    verify = [release / "prover", "verify", MUL60 / "verification_key.json", "public.json", "proof.json"]
    subprocess.run(verify, check=True, cwd=tmp_path, env=environment(), timeout=60)
    assert json.loads((tmp_path / "public.json").read_text()) == json.loads((MUL60 / "public.json").read_text())
    assert contents(release) == before


@pytest.mark.skipif(bool(runtime_bundled.why_not()), reason=f"no bundle here: {runtime_bundled.why_not()}")
def test_bundle_made_anew_is_the_same(
    local_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    again = runtime_layer("bundled", ROOT, lambda _: None, time.monotonic() + 250)
    assert again.layer == local_artifact.manifest.layers[0]
