"""The build step: what is loaded was found whole, what is replaced is replaced whole, and failures have a sentence."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from cuzkops import cli
from cuzkops.artifact.source import build_native
from cuzkops.commands.build import build_request
from cuzkops.commands.options import BuilderName
from cuzkops.errors import OpsError, TimeoutExpired, UsageError
from cuzkops.steps import build as step
from cuzkops.steps.build import Artifact, BuildRequest, build, load_artifact
from cuzkops.steps.build_docker import checked_gpu_archs, docker_argv, secrets

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
PACKAGE_SETTINGS = ("SSL_CERT_FILE", "PIP_CONFIG_FILE", "CUZKOPS_APT_CONF", "GIT_REVISION", "GIT_DIRTY")


@pytest.fixture
def artifact(make_artifact: Callable[..., Artifact]) -> Path:
    return make_artifact().directory


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No package configuration but what a test makes; returns the home directory."""
    for name in PACKAGE_SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def fake_client(folder: Path, body: str) -> str:
    """Write a Docker client that only says or does one thing: what our side makes of it is the subject."""
    path = folder / "docker-client"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def request(folder: Path, body: str, **changes: object) -> BuildRequest:
    fields = {"builder": "docker", "out": folder / "out", "project": ROOT, "docker": fake_client(folder, body)}
    return BuildRequest(**(fields | changes))  # type: ignore[arg-type] # a table of fields


def test_loads_what_is_whole(artifact: Path) -> None:
    loaded = load_artifact(artifact)
    assert [layer.name for layer in loaded.manifest.layers] == ["runtime", "native", "app"]
    assert all(loaded.layer_path(layer).is_file() for layer in loaded.manifest.layers)


def test_folder_without_manifest_is_no_artifact(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no artifact: manifest\.json: No such file or directory") as caught:
        load_artifact(tmp_path)
    assert "`cuzkops build`" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schema": 2}, "schema: Input should be 1"),
        ({"runtime": "other"}, "runtime: Input should be 'bundled' or 'host-python'"),
        ({"layers": None}, "layers: Input should be a valid"),
        ({"surprise": 1}, "surprise: Extra inputs are not permitted"),
    ],
)
def test_manifest_that_cannot_be_read_says_where(artifact: Path, change: dict[str, object], sentence: str) -> None:
    path = artifact / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(UsageError, match=r"manifest\.json cannot be read: ") as caught:
        load_artifact(artifact)
    assert sentence in caught.value.message


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_manifest_that_is_no_json_is_refused(artifact: Path, content: bytes) -> None:
    (artifact / "manifest.json").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        load_artifact(artifact)


def test_all_damaged_layers_are_named_at_once(artifact: Path) -> None:
    loaded = load_artifact(artifact)
    runtime, native, app = (loaded.layer_path(layer) for layer in loaded.manifest.layers)
    runtime.unlink()
    content = native.read_bytes()
    native.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    app.write_bytes(app.read_bytes() + b"x")
    with pytest.raises(UsageError) as caught:
        load_artifact(artifact)
    first, second, third = caught.value.details["problems"]  # type: ignore[misc] # a list, by this very test
    assert first == f"layer runtime ({runtime.name}): No such file or directory"
    assert second == "layer native does not have the digest that names it"
    assert third == f"layer app has {app.stat().st_size} bytes instead of {app.stat().st_size - 1}"
    assert caught.value.exit_status == 2


def test_build_id_that_is_not_of_these_layers_is_noticed(artifact: Path) -> None:
    path = artifact / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"build_id": "0" * 16}))
    with pytest.raises(UsageError, match="build_id 0000000000000000 is not that of the layers"):
        load_artifact(artifact)


def test_secrets_are_what_this_machine_has(no_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: no_settings / name for name in ("bundle.pem", "pip.conf", "apt.conf")}
    for path in files.values():
        path.write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(files["bundle.pem"]))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(files["pip.conf"]))
    monkeypatch.setenv("CUZKOPS_APT_CONF", str(files["apt.conf"]))
    assert secrets() == {"ca_bundle": files["bundle.pem"], "pip_conf": files["pip.conf"], "apt_conf": files["apt.conf"]}


def test_pip_conf_of_the_user_is_taken_and_what_is_missing_is_left_out(
    no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(no_settings / "missing.pem"))
    own = no_settings / ".config" / "pip" / "pip.conf"
    own.parent.mkdir(parents=True)
    own.write_text("[global]\n")
    assert secrets() == {"pip_conf": own}


def test_docker_command_word_by_word(no_settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = no_settings / "bundle.pem"
    bundle.write_text("x")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    monkeypatch.setenv("PIP_CONFIG_FILE", str(bundle))
    (no_settings / "pyproject.toml").write_text('[project]\nversion = "1"\n')
    (no_settings / "Dockerfile").touch()
    assert docker_argv("sh", no_settings, Path("/out"), "my-base:1") == [
        *("sh", "build", "--progress=plain", "--target", "artifact"),
        *("--build-arg", "GIT_REVISION=", "--build-arg", "GIT_DIRTY=false", "--build-arg", "BASE_IMAGE=my-base:1"),
        *("--secret", f"id=ca_bundle,src={bundle}", "--secret", f"id=pip_conf,src={bundle}"),
        *("-o", "type=local,dest=/out", no_settings),
    ]


def test_gpu_architectures_go_to_the_docker_build_and_anything_else_is_refused(no_settings: Path) -> None:
    (no_settings / "pyproject.toml").write_text('[project]\nversion = "1"\n')
    (no_settings / "Dockerfile").touch()
    for archs in ("90", "80 90,compute_90", "all", "none"):
        assert checked_gpu_archs(f" {archs} ", "x") == archs
        assert f"GPU_ARCHS={archs}" in docker_argv("sh", no_settings, Path("/out"), gpu_archs=archs)
    assert checked_gpu_archs("sm_90 compute_80, sm_100", "x") == "90 compute_80, 100"
    for archs in ("sm_ninety", "90 all", "x; y", "", " ", "90\n90 "):
        with pytest.raises(UsageError, match=r"^--gpu-archs: '.*' names no GPU architectures$") as caught:
            checked_gpu_archs(archs, "--gpu-archs")
        assert caught.value.hint == 'write numbers such as "90 100", names such as compute_90, all or none'


def test_gpu_architectures_are_those_of_the_option_the_environment_or_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPU_ARCHS", raising=False)

    def chosen(option: str | None) -> str | None:
        return build_request(None, None, option, tmp_path, "1m").gpu_archs

    assert chosen(None) is None
    (tmp_path / "cuzkops.toml").write_text('gpu_archs = "80"\n')
    assert chosen(None) == "80"
    monkeypatch.setenv("GPU_ARCHS", "90")
    assert chosen(None) == "90"
    assert chosen("none") == "none"
    with pytest.raises(UsageError, match=r"^--gpu-archs: '' names no"):  # nobody asked for all of them
        chosen("")
    monkeypatch.setenv("GPU_ARCHS", "ninety")
    with pytest.raises(UsageError, match=r"^\$GPU_ARCHS: 'ninety' names no"):
        chosen(None)
    monkeypatch.delenv("GPU_ARCHS")
    (tmp_path / "cuzkops.toml").write_text('gpu_archs = " "\n')
    with pytest.raises(UsageError, match=r"^gpu_archs in .*/cuzkops.toml: ' ' names no"):
        chosen(None)


def test_options_of_the_docker_build_are_refused_for_a_local_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPU_ARCHS", "90")  # a general setting: it says nothing of this build
    local = BuilderName.LOCAL
    for image, archs in (("debian:11", None), (None, "90"), (None, "all"), (None, "")):
        with pytest.raises(UsageError, match="say how Docker builds, and this is a local build"):
            build_request(local, image, archs, tmp_path, "1m")
    assert build_request(local, None, None, tmp_path, "1m").gpu_archs is None
    assert build_request(local, None, "none", tmp_path, "1m").gpu_archs is None


def test_kernels_of_a_device_travel_with_a_library_that_was_compiled_before(tmp_path: Path) -> None:
    made, layer = tmp_path / "made", tmp_path / "layer"
    made.mkdir()
    layer.mkdir()
    for name in ("libcuzkops_host.so", "cuzkops_ntt.fatbin", "cuzkops_ntt.stamp", "other.fatbin"):
        (made / name).write_bytes(b"x")
    assert build_native(tmp_path, layer, made / "libcuzkops_host.so", lambda _: None, float("inf"))
    assert sorted(path.name for path in (layer / "native").iterdir()) == ["cuzkops_ntt.fatbin", "libcuzkops_host.so"]


@pytest.mark.parametrize(
    ("said", "sentence", "exit_status"),
    [
        (
            "ERROR: BuildKit is enabled but the buildx component is missing or broken.",
            "lacks the buildx component that its BuildKit needs",
            2,
        ),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            "no Docker engine answers",
            2,
        ),
        (
            "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
            "this user may not speak to the Docker engine",
            2,
        ),
        (
            "ERROR: failed to solve: base: pull access denied, repository does not exist or may require authorization",
            "the base image of the build cannot be pulled: ERROR: failed to solve: base",
            2,
        ),
        (
            "failed to create LLB definition: docker.io/library/debian:no: not found",
            "the base image of the build cannot be pulled: failed to create",
            2,
        ),
        (
            "failed to create LLB definition: failed to do request: Head https://no.invalid/v2/: no such host",
            "the base image of the build cannot be pulled: failed to create",
            2,
        ),
        (
            "ERROR: base: failed to resolve source metadata for no.invalid/base:1: no such host",
            "the base image of the build cannot be pulled: ERROR: base",
            2,
        ),
        (
            "#21 2.1 nvcc fatal   : Unsupported gpu architecture compute_70",
            "the CUDA compiler cannot build for a GPU architecture: #21 2.1 nvcc fatal",
            2,
        ),
        ("failed to copy: write /x: no space left on device", "the disk of the Docker engine is full", 1),
    ],
)
def test_known_failures_have_one_sentence(tmp_path: Path, said: str, sentence: str, exit_status: int) -> None:
    with pytest.raises(OpsError) as caught:
        build(request(tmp_path, f"echo '{said}' >&2; exit 1"), lambda _: None)
    assert sentence in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_status == exit_status
    assert caught.value.details["last_lines"] == [said]


def test_unknown_failure_shows_the_last_lines(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(OpsError, match="docker build ended with status 9: error: line 3") as caught:
        build(request(tmp_path, "for n in 1 2 3; do echo error: line $n; done; exit 9"), lines.append)
    assert lines == caught.value.details["last_lines"] == ["error: line 1", "error: line 2", "error: line 3"]


def test_missing_client_is_named_with_the_other_way(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no Docker client '/nowhere/docker'") as caught:
        build(request(tmp_path, "", docker="/nowhere/docker"), lambda _: None)
    assert "--builder local" in caught.value.hint


def test_project_without_dockerfile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no Dockerfile"):
        build(request(tmp_path, "", project=tmp_path), lambda _: None)


def test_client_is_told_to_use_buildkit(tmp_path: Path) -> None:
    lines: list[str] = []
    with pytest.raises(OpsError):
        build(request(tmp_path, 'echo "$DOCKER_BUILDKIT"; exit 1'), lines.append)
    assert lines == ["1"]


def test_deadline_ends_the_client_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(TimeoutExpired, match="docker build did not end within its deadline"):
        build(request(tmp_path, "sleep 60", timeout_s=0.3), lambda _: None)
    assert [path.name for path in tmp_path.iterdir() if "out" in path.name] == []


def test_failure_leaves_the_earlier_artifact(tmp_path: Path, artifact: Path) -> None:
    before = load_artifact(artifact)
    with pytest.raises(OpsError):
        build(request(tmp_path, "exit 1", out=artifact), lambda _: None)
    assert load_artifact(artifact) == before


def client_that_exports(folder: Path, source: Path) -> str:
    """A client whose build is a copy of an artifact into the folder that `-o` names."""
    body = f"""for word; do case $word in type=local,dest=*) out=${{word#type=local,dest=}} ;; esac; done
cp {source}/* "$out"/"""
    return fake_client(folder, body)


def test_new_artifact_replaces_the_earlier_one(tmp_path: Path, make_artifact: Callable[..., Artifact]) -> None:
    one, two = make_artifact("one"), make_artifact("two")
    out = tmp_path / "deep" / "out"
    for made in (one, two, two):
        client = client_that_exports(tmp_path, made.directory)
        built = build(BuildRequest("docker", out, project=ROOT, docker=client), lambda _: None)
        assert built.manifest == made.manifest
        assert built.directory == out
        assert {path.name for path in out.iterdir()} == {path.name for path in made.directory.iterdir()}
    assert [path.name for path in out.parent.iterdir()] == ["out"]


def test_damaged_export_is_not_moved_into_place(tmp_path: Path, artifact: Path) -> None:
    next(artifact.glob("*.tar.gz")).write_bytes(b"half")
    client = client_that_exports(tmp_path, artifact)
    with pytest.raises(UsageError, match="is damaged"):
        build(BuildRequest("docker", tmp_path / "out", project=ROOT, docker=client), lambda _: None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["files", "file"])
def test_what_is_no_artifact_is_never_replaced(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("mine")
    else:
        out.mkdir()
        (out / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match=r"holds other files than an artifact|is not a folder"):
        build(request(tmp_path, "exit 0"), lambda _: None)
    assert (out if kind == "file" else out / "thesis.tex").read_text() == "mine"


def test_ctrl_c_ends_the_client_and_leaves_nothing(tmp_path: Path) -> None:
    client = fake_client(tmp_path, f"echo $$ > {tmp_path}/pid; exec sleep 60")
    code = (
        "import sys; from pathlib import Path; from cuzkops.steps.build import *\n"
        f"build(BuildRequest('docker', Path({str(tmp_path / 'out')!r}), docker={client!r}), print)"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) as ours:
        pid = wait_for_pid(tmp_path / "pid")
        ours.send_signal(signal.SIGINT)
        assert ours.wait(20) in (1, 130, -signal.SIGINT)
    deadline = time.monotonic() + 10  # an orphan is a zombie until somebody reaps it
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the client goes on"
        time.sleep(0.02)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("xdg")) == [
        "docker-client",
        "pid",
    ]


def wait_for_pid(path: Path) -> int:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if path.exists() and (text := path.read_text().strip()):
            return int(text)
        time.sleep(0.02)
    raise AssertionError(f"{path} was not written")


def test_client_of_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUZKOPS_DOCKER", "/opt/docker")
    assert BuildRequest("docker", tmp_path).docker == "/opt/docker"
    monkeypatch.delenv("CUZKOPS_DOCKER")
    assert BuildRequest("docker", tmp_path).docker == step.docker_client() == "docker"


def test_an_artifact_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OpsError, match=r"cannot be written: (Not a directory|File exists)"):
        build(request(tmp_path, "exit 1", out=tmp_path / "file" / "out"), lambda _: None)
    with pytest.raises(OpsError, match="cannot be written: File name too long"):
        build(request(tmp_path, "exit 1", out=tmp_path / ("a" * 300)), lambda _: None)


@pytest.mark.parametrize("words", [["--builder", "local"], ["--base-image", "x"], ["--gpu-archs", "90"]])
def test_options_that_extract_does_not_heed_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["build", "--extract", "/x", *words]) == 2
    assert "--builder, --base-image and --gpu-archs say how our own prover is built" in capsys.readouterr().err
