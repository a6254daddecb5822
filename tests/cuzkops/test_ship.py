from __future__ import annotations

import hashlib
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.configuration import load_configuration
from cuzkops.errors import OpsError, UsageError
from cuzkops.remote.host import Completed, Host, Script
from cuzkops.remote.releases import circuit_script
from cuzkops.steps.check import check
from cuzkops.steps.ship import ShipRequest, Transfer, plan_ship, ship

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact


@pytest.fixture
def request_(make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]) -> ShipRequest:
    return ShipRequest(make_artifact(), make_config())


def mode(path: str | Path) -> int:
    return Path(path).stat().st_mode & 0o777


def unchanging(path: Path) -> list[int]:
    """All that is known of a file but when it was read last."""
    found = path.stat()
    return [*found[:7], found.st_mtime_ns, found.st_ctime_ns]


def names(folder: str) -> list[str]:
    return sorted(os.listdir(folder))  # noqa: PTH208 - names alone are meant


def test_a_release_for_gpus_has_a_layer_more(
    host: Host, layout: Layout, request_: ShipRequest, make_artifact: Callable[..., Artifact]
) -> None:
    result = ship(host, layout, replace(request_, artifact=make_artifact(gpu=True)))
    assert names(layout.release(result.release_id)) == [
        *("app", "config.toml", "gpu", "manifest.json", "native", "prover", "runtime")
    ]
    assert result.sent[:4] == ("layer runtime", "layer gpu", "layer native", "layer app")


def test_a_release_is_the_union_of_its_layers(host: Host, layout: Layout, request_: ShipRequest, key: Path) -> None:
    seen: list[Transfer] = []
    result = ship(host, layout, request_, seen.append)
    release = Path(layout.release(result.release_id))
    assert names(str(release)) == ["app", "config.toml", "manifest.json", "native", "prover", "runtime"]
    assert (release / "config.toml").read_bytes() == request_.config.text
    assert result.sent == ("layer runtime", "layer native", "layer app", "circuit mul")
    assert result.skipped == ()
    layers = request_.artifact.manifest.layers
    assert result.bytes_sent == sum(layer.n_bytes for layer in layers) + key.stat().st_size
    circuit = Path(layout.circuits) / request_.config.circuits["mul"].sha256
    assert circuit.read_bytes() == key.read_bytes()
    assert seen[0] == Transfer("layer runtime", 0, layers[0].n_bytes)
    assert seen[-1] == Transfer("circuit mul", key.stat().st_size, key.stat().st_size)
    assert names(layout.layers) == sorted(layer.sha256 for layer in layers)


def test_what_is_there_is_private(host: Host, layout: Layout, request_: ShipRequest) -> None:
    release = layout.release(ship(host, layout, request_).release_id)
    folders = [layout.layers, layout.circuits, layout.home, layout.releases, layout.run, layout.logs, release]
    assert {mode(folder) for folder in folders} == {0o700}
    files = [f"{release}/config.toml", f"{layout.circuits}/{request_.config.circuits['mul'].sha256}"]
    assert {mode(file) for file in files} == {0o600}
    assert mode(f"{release}/prover") & 0o700 == 0o700  # tar applies the umask unless root unpacks


def test_files_of_a_release_are_links_to_its_layers(host: Host, layout: Layout, request_: ShipRequest) -> None:
    release = layout.release(ship(host, layout, request_).release_id)
    app = request_.artifact.manifest.layers[2].sha256
    assert Path(f"{release}/prover").samefile(f"{layout.layers}/{app}/prover")


def test_shipping_again_changes_nothing(host: Host, layout: Layout, request_: ShipRequest) -> None:
    release = Path(layout.release(ship(host, layout, request_).release_id))
    before = unchanging(release)
    again = ship(host, layout, request_)
    assert (again.sent, again.bytes_sent, len(again.skipped)) == ((), 0, 4)
    assert unchanging(release) == before


def test_a_release_that_lost_its_configuration_is_made_again(host: Host, layout: Layout, request_: ShipRequest) -> None:
    release = Path(layout.release(ship(host, layout, request_).release_id))
    (release / "config.toml").unlink()
    assert ship(host, layout, request_).sent == ()
    assert (release / "config.toml").read_bytes() == request_.config.text
    assert names(layout.releases) == [release.name]


def test_a_changed_file_of_the_app_sends_the_app_alone(
    host: Host, layout: Layout, request_: ShipRequest, make_artifact: Callable[..., Artifact]
) -> None:
    first = ship(host, layout, request_)
    second = ship(host, layout, ShipRequest(make_artifact(app="two"), request_.config))
    assert second.sent == ("layer app",)
    assert second.release_id != first.release_id
    assert Path(f"{layout.release(first.release_id)}/app/code.py").read_text() == "one"
    assert Path(f"{layout.release(second.release_id)}/app/code.py").read_text() == "two"


def test_a_running_executable_is_not_in_the_way(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    sleep = Path("/bin/sleep").read_bytes()
    config = make_config()
    first = ship(host, layout, ShipRequest(make_artifact(launcher=sleep), config))
    with subprocess.Popen([f"{layout.release(first.release_id)}/prover", "60"]) as running:
        try:
            again = ship(host, layout, ShipRequest(make_artifact(app="two", launcher=sleep), config))
            assert again.sent == ("layer app",)
            assert running.poll() is None
        finally:
            running.kill()


class Interrupted(Exception):  # noqa: N818 - what happened
    pass


class DyingHost:
    """A host whose client dies before the script with this title runs."""

    def __init__(self, host: Host, dies_at: str) -> None:
        self._host, self._dies_at = host, dies_at
        self.target, self.resume = host.target, host.resume

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        if script.title == self._dies_at:
            raise Interrupted
        return self._host.run(script, timeout_s=timeout_s)


def test_what_an_interrupted_run_left_is_removed_by_the_next(host: Host, layout: Layout, request_: ShipRequest) -> None:
    with pytest.raises(Interrupted):
        ship(DyingHost(host, "check and unpack layer native"), layout, request_)  # type: ignore[arg-type] # two methods do
    [left] = [name for name in names(layout.layers) if ".part-" in name]
    assert left.startswith(request_.artifact.manifest.layers[1].sha256)
    strangers = [Path(layout.layers) / "notes.txt", Path(layout.circuits) / "mine.part"]
    for stranger in strangers:
        stranger.write_text("not ours")
    half = Path(layout.releases) / "some-release.tmp-0123"
    half.mkdir()
    Path(layout.lock).rmdir()
    time.sleep(0.05)  # file times move in steps of a few milliseconds
    Path(layout.lock).mkdir()  # the next run takes the lock: it is newer than what was left
    result = ship(host, layout, request_)
    assert result.skipped == ("layer runtime",)
    assert [name for name in names(layout.layers) if "." in name] == ["notes.txt"]
    assert not half.exists()
    assert all(stranger.exists() for stranger in strangers)


def test_leftovers_newer_than_the_lock_belong_to_somebody(host: Host, layout: Layout, request_: ShipRequest) -> None:
    Path(layout.layers).mkdir()
    other = Path(layout.layers) / "ab.tmp-0123"
    other.mkdir()
    os.utime(layout.lock, ns=(0, 0))
    ship(host, layout, request_)
    assert other.exists()


def test_damage_on_the_way_is_noticed(host: Host, layout: Layout, request_: ShipRequest) -> None:
    layer = request_.artifact.manifest.layers[1]
    archive = request_.artifact.layer_path(layer)
    archive.write_bytes(archive.read_bytes()[:-5] + b"\0" + archive.read_bytes()[-4:])
    with pytest.raises(OpsError, match=r"layer native was damaged on its way: arrived as [0-9a-f]{64}") as caught:
        ship(host, layout, request_)
    assert caught.value.code == "transfer-damaged"
    assert names(layout.layers) == [request_.artifact.manifest.layers[0].sha256]
    assert names(layout.releases) == []


class SmallDisk(DyingHost):
    """A host that says how little space it has."""

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        done = self._host.run(script, timeout_s=timeout_s)
        lines = done.out.splitlines()
        lines = [" ".join([*line.split()[:3], "7", *line.split()[4:]]) if "%" in line else line for line in lines]
        return Completed(script, done.status, "\n".join(lines).encode(), done.stderr)


def test_a_disk_that_is_too_small_is_noticed_before_anything_travels(
    host: Host, layout: Layout, request_: ShipRequest
) -> None:
    with pytest.raises(OpsError, match=r"the disk is too small: need \d+.* MiB, have 7.00 KiB \(.* on /") as caught:
        ship(SmallDisk(host, ""), layout, request_)  # type: ignore[arg-type] # two methods do
    assert caught.value.code == "disk-full"
    parts = caught.value.details["parts"]
    assert isinstance(parts, dict)
    assert sum(parts.values()) == caught.value.details["need_bytes"]
    assert next(iter(parts)) == "layers (runtime, native, app)"
    assert names(layout.layers) == []


def test_a_digest_that_nobody_has_is_refused(
    host: Host, layout: Layout, tmp_path: Path, make_artifact: Callable[..., Artifact]
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[[circuits]]\nname = "far"\nsha256 = "{"ab" * 32}"\n')
    with pytest.raises(UsageError, match="circuit far is named by its digest, and the host has no key abababababab"):
        ship(host, layout, ShipRequest(make_artifact(), load_configuration(config)))


def test_layers_without_a_prover_make_no_release(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    artifact = make_artifact()
    manifest = artifact.manifest.model_copy(update={"layers": artifact.manifest.layers[:2]})
    with pytest.raises(OpsError, match="the layers hold no file named prover"):
        ship(host, layout, ShipRequest(type(artifact)(artifact.directory, manifest), make_config()))
    assert names(layout.releases) == []


def test_without_hard_links_files_are_copied(host: Host, layout: Layout, request_: ShipRequest, tmp_path: Path) -> None:
    class NoLinks(DyingHost):
        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            body = f'PATH="{tmp_path}/bin:$PATH"\n{script.body}'
            return self._host.run(Script(script.title, body, script.parameters), timeout_s=timeout_s)

    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "cp").write_text('#!/bin/sh\n[ "$1" = -al ] && exit 1\nexec /bin/cp "$@"\n')
    (tmp_path / "bin" / "cp").chmod(0o755)
    release = layout.release(ship(NoLinks(host, ""), layout, request_).release_id)  # type: ignore[arg-type] # the same
    assert Path(f"{release}/native/lib.so").stat().st_nlink == 1
    assert os.access(f"{release}/prover", os.X_OK)


def test_the_plan_is_what_a_run_executes(host: Host, layout: Layout, request_: ShipRequest) -> None:
    ran: list[str] = []

    class Recorder(DyingHost):
        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            ran.append(script.title)
            return self._host.run(script, timeout_s=timeout_s)

    ship(Recorder(host, ""), layout, request_)  # type: ignore[arg-type] # two methods do
    planned = [script.title for script in plan_ship(layout, request_)]
    assert [title for title in planned if not title.startswith("send ")] == ran
    sent = [title for title in planned if title.startswith("send ")]
    assert len(sent) == 4
    assert all(title.endswith(", if the host lacks it") for title in sent)


def test_the_script_that_checks_a_key(layout: Layout) -> None:
    script = circuit_script(layout, "circuit mul", "ab" * 32, f"{layout.circuits}/x.part-1")
    assert script.text == (
        f"CIRCUIT='{layout.circuits}/{'ab' * 32}'\n"
        f"SEEN='{layout.digests}/{'ab' * 32}.seen'\n"
        f"PART='{layout.circuits}/x.part-1'\n"
        f"SHA256={'ab' * 32}\n"
        'found=$(sha256sum <"$PART") || exit 1\n'
        "found=${found%% *}\n"
        '[ "$found" = "$SHA256" ] || { rm -f "$PART"; echo "arrived as $found" >&2; exit 65; }\n'
        '[ ! -L "$CIRCUIT" ] && { [ -f "$CIRCUIT" ] || [ ! -e "$CIRCUIT" ]; } || rm -rf "$CIRCUIT" || exit 1\n'
        'chmod 600 "$PART" && mv -f "$PART" "$CIRCUIT" || exit 1\n'
        'stat -c \'%d %i %s %y %z\' -- "$CIRCUIT" >"$SEEN" 2>/dev/null || rm -f "$SEEN"\n'
    )


def test_a_missing_tool_is_named(host: Host, layout: Layout, request_: ShipRequest) -> None:
    class Bare(DyingHost):
        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            done = self._host.run(script, timeout_s=timeout_s)
            return Completed(script, 0, b"missing tar\nmissing gzip\n" + done.stdout, b"")

    with pytest.raises(OpsError, match="the host has no tar, gzip"):
        ship(Bare(host, ""), layout, request_)  # type: ignore[arg-type] # two methods do


class ForeignShell:
    """A host with another shell, and with no tools but those of busybox where that is the shell."""

    def __init__(self, host: Host, shell: list[str], tools: Path) -> None:
        self.target, self.resume = host.target, host.resume
        self._shell = shell
        self._environment = {"PATH": "/usr/bin:/bin"}
        if shell[0].endswith("busybox"):
            tools.mkdir()
            subprocess.run([shell[0], "--install", "-s", str(tools)], check=True)
            self._environment = {"PATH": str(tools)}

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        done = subprocess.run(
            [*self._shell, "-s"],
            input=script.text.encode(),
            capture_output=True,
            check=False,
            env=self._environment,
            timeout=timeout_s,
        )
        return Completed(script, done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("shell", [["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"]], ids=lambda s: s[0])
def test_every_shell_and_toolset_makes_the_same_release(
    host: Host, layout: Layout, request_: ShipRequest, tmp_path: Path, shell: list[str]
) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    foreign = ForeignShell(host, shell, tmp_path / "tools")
    result = ship(foreign, layout, request_)  # type: ignore[arg-type] # two methods do
    release = Path(layout.release(result.release_id))
    assert names(str(release)) == ["app", "config.toml", "manifest.json", "native", "prover", "runtime"]
    assert (release / "native" / "lib.so").stat().st_nlink == 2
    assert os.access(release / "prover", os.X_OK)
    assert ship(foreign, layout, request_).sent == ()  # type: ignore[arg-type] # the same
    assert check(foreign, layout, result.release_id).ok  # type: ignore[arg-type] # the same


def test_digests_are_of_the_shipped_bytes(request_: ShipRequest) -> None:
    assert request_.config.sha256 == hashlib.sha256(request_.config.text).hexdigest()
    assert request_.release_id.endswith(request_.config.sha256[:12])
