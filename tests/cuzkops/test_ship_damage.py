"""What is damaged on the host is found by digest, named in a sentence, and replaced by new files."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_ship import ForeignShell

from cuzkops.configuration import load_configuration
from cuzkops.errors import OpsError, UsageError
from cuzkops.steps.launch import LaunchRequest, launch
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.steps.verify import read_release, verify

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact


class Shipped:
    """A release on a host, and where its parts lie there."""

    def __init__(self, host: Host, layout: Layout, request: ShipRequest) -> None:
        self.host, self.layout, self.request = host, layout, request
        self.release_id = ship(host, layout, request).release_id
        self.release = Path(layout.release(self.release_id))
        self.runtime, self.native, self.app = (
            Path(layout.layers) / layer.sha256 for layer in request.artifact.manifest.layers
        )
        self.circuit = Path(layout.circuits) / request.config.circuits["mul"].sha256
        self.before = self.tree()

    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Every file of the release, its layers and the key: path -> mode and content."""
        folders = (self.release, self.runtime, self.native, self.app, self.circuit.parent)
        return {
            str(path): (path.stat().st_mode, path.read_bytes())
            for folder in folders
            for path in folder.rglob("*")
            if path.is_file() and path.name != "manifest.json"
        }


@pytest.fixture
def shipped(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> Shipped:
    return Shipped(host, layout, ShipRequest(make_artifact(), make_config()))


def flip(path: Path, at: int = 10) -> None:
    """Change one byte in place, and hide it from those who look at size and time."""
    was = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))


def flip_key(it: Shipped) -> None:
    flip(it.circuit)


def cut_key(it: Shipped) -> None:
    os.truncate(it.circuit, 100)


def key_is_folder(it: Shipped) -> None:
    it.circuit.unlink()
    (it.circuit / "inside").mkdir(parents=True)


def key_is_link(it: Shipped) -> None:
    it.circuit.rename(it.circuit.with_name("elsewhere"))
    it.circuit.symlink_to("elsewhere")


def change_layer_file(it: Shipped) -> None:
    flip(it.native / "native" / "lib.so", 4000)


def empty_layer(it: Shipped) -> None:
    shutil.rmtree(it.app)
    it.app.mkdir()


def half_a_layer(it: Shipped) -> None:
    (it.runtime / "runtime" / "host-python").unlink()


def stranger_in_layer(it: Shipped) -> None:
    (it.app / "app" / "sitecustomize.py").write_text("import evil")


def not_executable(it: Shipped) -> None:
    (it.app / "prover").chmod(0o600)


def layer_is_file(it: Shipped) -> None:
    shutil.rmtree(it.app)
    it.app.write_bytes(b"")


def no_list(it: Shipped) -> None:
    (Path(it.layout.digests) / f"{it.app.name}.files").unlink()


def cut_list(it: Shipped) -> None:
    path = Path(it.layout.digests) / f"{it.app.name}.files"
    os.truncate(path, path.stat().st_size - 20)


def cut_manifest(it: Shipped) -> None:
    os.truncate(it.release / "manifest.json", 40)


def no_manifest(it: Shipped) -> None:
    (it.release / "manifest.json").unlink()


def other_configuration(it: Shipped) -> None:
    with (it.release / "config.toml").open("a") as file:
        file.write("# and one thing more\n")


def own_file_of_release(it: Shipped) -> None:
    path = it.release / "app" / "code.py"
    path.unlink()
    path.write_text("not what was shipped")


def half_a_release(it: Shipped) -> None:
    shutil.rmtree(it.release / "native")


DAMAGES = [
    (flip_key, "circuit mul on local was damaged: its content has the digest ", "circuit mul"),
    (cut_key, "circuit mul on local was damaged: its content has the digest ", "circuit mul"),
    (key_is_folder, "circuit mul on local was damaged: something else lies in its place", "circuit mul"),
    (key_is_link, "circuit mul on local was damaged: something else lies in its place", "circuit mul"),
    (
        change_layer_file,
        "layer native on local was damaged: native/lib.so was changed; it is sent again",
        "layer native",
    ),
    (
        empty_layer,
        "layer app on local was damaged: app is missing, app/code.py is missing, prover is missing; it is sent again",
        "layer app",
    ),
    (half_a_layer, "layer runtime on local was damaged: runtime/host-python is missing", "layer runtime"),
    (stranger_in_layer, "layer app on local was damaged: app/sitecustomize.py does not belong there", "layer app"),
    (not_executable, "layer app on local was damaged: prover may not be executed any more", "layer app"),
    (layer_is_file, "layer app on local was damaged: something else lies in its place", "layer app"),
    (no_list, "layer app on local was damaged: the list of its files is missing or damaged", "layer app"),
    (cut_list, "layer app on local was damaged: the list of its files is missing or damaged", "layer app"),
    (cut_manifest, "RELEASE on local was damaged: its manifest cannot be read: Invalid JSON", ""),
    (no_manifest, "RELEASE on local was damaged: ", ""),
    (other_configuration, "RELEASE on local was damaged: its manifest or its configuration is not the one", ""),
    (own_file_of_release, "RELEASE on local was damaged: app/code.py was changed; it is made again", ""),
    (half_a_release, "RELEASE on local was damaged: native is missing, native/lib.so is missing", ""),
]


# The files of a release are links of its own: these take nothing from it.
OF_THE_LAYER_ALONE = (empty_layer, half_a_layer, stranger_in_layer, layer_is_file)


@pytest.mark.parametrize(("damage", "said", "sent"), DAMAGES, ids=[damage[0].__name__ for damage in DAMAGES])
def test_damage_is_named_and_repaired_by_the_next_ship(
    shipped: Shipped, damage: Callable[[Shipped], None], said: str, sent: str
) -> None:
    damage(shipped)
    if damage not in OF_THE_LAYER_ALONE:
        with pytest.raises(OpsError, match=f"release {shipped.release_id} on local is damaged: "):
            verify(shipped.host, shipped.layout, read_release(shipped.host, shipped.layout, shipped.release_id))
    sentences: list[str] = []
    result = ship(shipped.host, shipped.layout, shipped.request, say=sentences.append)
    [sentence] = sentences
    assert sentence.startswith(said.replace("RELEASE", f"release {shipped.release_id}"))
    assert result.repaired == (sentence,)
    assert result.sent == ((sent,) if sent else ())
    after = shipped.tree()
    after.pop(str(shipped.circuit.with_name("elsewhere")), None)
    assert after == shipped.before
    verify(shipped.host, shipped.layout, read_release(shipped.host, shipped.layout, shipped.release_id))
    folders = [Path(folder) for folder in (shipped.layout.layers, shipped.layout.releases, shipped.layout.circuits)]
    assert [path for folder in folders for path in folder.iterdir() if ".tmp-" in path.name] == []


def test_what_a_running_release_has_open_is_not_touched(shipped: Shipped) -> None:
    with (shipped.release / "native" / "lib.so").open("rb") as running, shipped.circuit.open("rb") as key:
        change_layer_file(shipped)
        flip_key(shipped)
        damaged, damaged_key = os.pread(running.fileno(), 1 << 20, 0), os.pread(key.fileno(), 1 << 20, 0)
        ship(shipped.host, shipped.layout, shipped.request)
        assert os.pread(running.fileno(), 1 << 20, 0) == damaged
        assert os.pread(key.fileno(), 1 << 20, 0) == damaged_key
        assert not os.path.sameopenfile(running.fileno(), os.open(shipped.release / "native" / "lib.so", os.O_RDONLY))


def test_a_damaged_release_is_not_launched(shipped: Shipped) -> None:
    change_layer_file(shipped)
    flip_key(shipped)
    manifest, config = shipped.request.artifact.manifest, shipped.request.config
    request = LaunchRequest(shipped.release_id, "launch-1", manifest, config.sha256)
    with pytest.raises(OpsError, match=r"is damaged: native/lib.so was changed; the key of circuit mul: ") as refused:
        launch(shipped.host, shipped.layout, request)
    assert refused.value.code == "damaged-release"
    assert not Path(shipped.layout.current).exists()


def test_a_key_is_hashed_once_and_again_when_it_is_another_file(shipped: Shipped) -> None:
    seen = Path(shipped.layout.digests) / f"{shipped.circuit.name}.seen"
    ship(shipped.host, shipped.layout, shipped.request)
    later = shipped.circuit.stat().st_mtime_ns + 10**9
    os.utime(seen, ns=(later, later))  # not of the same tick as the key
    inode = seen.stat().st_ino
    ship(shipped.host, shipped.layout, shipped.request)
    assert seen.stat().st_ino == inode  # taken as it was: hashing writes it anew
    copy = shipped.circuit.with_name("copy")
    shutil.copy2(shipped.circuit, copy)
    copy.rename(shipped.circuit)
    assert ship(shipped.host, shipped.layout, shipped.request).sent == ()
    assert str(shipped.circuit.stat().st_ino) in seen.read_text().split()
    seen.write_text("nothing of the kind\n")
    assert ship(shipped.host, shipped.layout, shipped.request).sent == ()


def test_a_thorough_ship_believes_no_memory(shipped: Shipped) -> None:
    flip_key(shipped)
    # as if the disk itself had changed the bytes: nothing that the kernel knows of the file has changed
    seen = Path(shipped.layout.digests) / f"{shipped.circuit.name}.seen"
    seen.write_bytes(subprocess.check_output(["stat", "-c", "%d %i %s %y %z", shipped.circuit]))
    later_ns = shipped.circuit.stat().st_mtime_ns + 10**10
    os.utime(seen, ns=(later_ns, later_ns))
    assert ship(shipped.host, shipped.layout, shipped.request).repaired == ()
    thorough = ShipRequest(shipped.request.artifact, shipped.request.config, thorough=True)
    assert ship(shipped.host, shipped.layout, thorough).sent == ("circuit mul",)


def test_a_damaged_key_that_only_the_host_has_is_named(
    shipped: Shipped, tmp_path: Path, make_artifact: Callable[..., Artifact]
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(f'[[circuits]]\nname = "far"\nsha256 = "{shipped.circuit.name}"\n')
    request = ShipRequest(make_artifact(), load_configuration(config))
    ship(shipped.host, shipped.layout, request)
    flip_key(shipped)
    with pytest.raises(UsageError, match=r"circuit far is named by its digest, and the key .* on local is damaged"):
        ship(shipped.host, shipped.layout, request)


@pytest.mark.parametrize("shell", [["/bin/bash", "--posix"], ["/bin/busybox", "sh"]], ids=lambda s: s[0])
def test_every_shell_and_toolset_finds_it(shipped: Shipped, tmp_path: Path, shell: list[str]) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    foreign = ForeignShell(shipped.host, shell, tmp_path / "tools")
    for damage in (flip_key, change_layer_file, not_executable):
        damage(shipped)
    said = ship(foreign, shipped.layout, shipped.request).repaired  # type: ignore[arg-type] # two methods do
    assert [sentence.partition(":")[0] for sentence in said] == [
        "layer native on local was damaged",
        "layer app on local was damaged",
        "circuit mul on local was damaged",
    ]
    assert shipped.tree() == shipped.before
