"""A whole artifact, small and made in a moment: the real launcher and layers around a daemon that only exists."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import NEED_BYTES, Recorder, wait_until

from cuzkops.artifact.layers import build_id, write_layer
from cuzkops.configuration import DeployConfig, load_configuration
from cuzkops.records import HostPython, Manifest
from cuzkops.remote import lock
from cuzkops.remote.layout import Layout
from cuzkops.remote.local import LocalHost
from cuzkops.steps.build import Artifact
from cuzkops.steps.deploy import DeployRequest, deploy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host
    from cuzkops.steps.deploy import DeployResult

ROOT = Path(__file__).parents[2]
BOOT = ROOT / "tests" / "data" / "small-prover" / "boot.py"
LAUNCHER = ROOT / "cuzkops" / "artifact" / "launcher.sh"


@pytest.fixture
def host() -> Iterator[LocalHost]:
    with LocalHost() as host:
        yield host


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(str(tmp_path / "remote dir"), "prover")  # with a space: every script must quote
    Path(layout.lock).mkdir(parents=True)  # this client holds the lock
    return layout


@pytest.fixture
def unlocked(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deploy takes the lock by itself."""
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)  # a host where nothing was killed: its window is not ours
    Path(layout.lock).rmdir()


@pytest.fixture
def make_artifact(tmp_path: Path) -> Callable[..., Artifact]:
    """Make an artifact; other `app` text makes another app layer, `launcher` replaces the executable `prover`.

    With `gpu` it has the layer of one that was built for GPUs.
    """

    def make(app: str = "one", launcher: bytes | None = None, *, gpu: bool = False) -> Artifact:
        out = tmp_path / f"artifact-{time.monotonic_ns()}"
        out.mkdir()
        with tempfile.TemporaryDirectory() as raw:
            runtime, native, app_folder = (Path(raw) / name for name in ("runtime", "native", "app"))
            (runtime / "runtime").mkdir(parents=True)
            (native / "native").mkdir(parents=True)
            (app_folder / "app").mkdir(parents=True)
            (Path(raw) / "cuda" / "gpu" / "cupy").mkdir(parents=True)
            shutil.copy(BOOT, runtime / "runtime" / "boot.py")
            version = f"{sys.version_info[0]}.{sys.version_info[1]}"
            (runtime / "runtime" / "host-python").write_text(f"{version}\n{sys.executable}\n")
            (native / "native" / "lib.so").write_bytes(bytes(range(256)) * 64)
            (app_folder / "app" / "code.py").write_text(app)
            (app_folder / "prover").write_bytes(launcher or LAUNCHER.read_bytes())
            (app_folder / "prover").chmod(0o755)
            layers = [
                write_layer(runtime, "runtime", out),
                *([write_layer(Path(raw) / "cuda", "gpu", out)] if gpu else []),
                write_layer(native, "native", out),
                write_layer(app_folder, "app", out),
            ]
        manifest = Manifest(
            build_id=build_id(layers),
            git="",
            dirty=False,
            version="0.1.0",
            target="x86_64-linux-gnu",
            glibc_floor="2.17",
            cpu_flags=[],
            runtime="host-python",
            host_python=HostPython(version=version, path=sys.executable),
            layers=layers,
            builder="local",
            built_unix_ns=time.time_ns(),
        )
        (out / "manifest.json").write_text(manifest.model_dump_json(by_alias=True))
        return Artifact(out, manifest)

    return make


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "mul.zkey"
    path.write_bytes(b"a proving key, as far as transport is concerned" * 1000)
    return path


@pytest.fixture
def make_config(tmp_path: Path, key: Path) -> Callable[..., DeployConfig]:
    """Make a configuration with one circuit; `small` goes into the table that the small daemon obeys."""

    def make(**small: object) -> DeployConfig:
        path = tmp_path / f"config-{time.monotonic_ns()}.toml"
        lines = [f"{name} = {value!r}" for name, value in small.items()]
        path.write_text("\n".join(["[small]", *lines, "[[circuits]]", 'name = "mul"', f'path = "{key}"']))
        return load_configuration(path)

    return make


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def make_request(
    make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> Callable[..., DeployRequest]:
    """Make a request; only where `need_bytes` is None the memory of the host, and so of other tests, decides."""
    n_runs = 0

    def make(
        app: str = "one", launcher: bytes | None = None, need_bytes: int | None = NEED_BYTES, **small: object
    ) -> DeployRequest:
        nonlocal n_runs
        n_runs += 1
        owner = lock.this_process("client", f"run-{n_runs}", "preflight")
        artifact = make_artifact(app, launcher)
        return DeployRequest(
            artifact.directory,
            make_config(**small),
            owner,
            need_bytes=need_bytes,
            wait_timeout_s=120,
            readiness_s=0.2,
            launch_deadline_s=20,
        )

    return make


@pytest.fixture
def run(
    host: Host, layout: Layout, make_request: Callable[..., DeployRequest], recorder: Recorder
) -> Iterator[Callable[..., DeployResult]]:
    yield lambda **options: deploy(host, layout, make_request(**options), recorder)
    record = Path(layout.daemon_json)
    if record.exists():
        pid = json.loads(record.read_text())["pid"]
        with contextlib.suppress(ProcessLookupError):  # it ended by itself, and left its record
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}/stat").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())
