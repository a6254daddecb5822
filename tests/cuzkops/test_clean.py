"""What nobody uses goes, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops import cli
from cuzkops.configuration import load_configuration
from cuzkops.errors import UsageError
from cuzkops.remote import audit
from cuzkops.remote.layout import Layout
from cuzkops.steps.clean import clean, look, plan_clean
from cuzkops.steps.rollback import find_release
from cuzkops.steps.room import advise
from cuzkops.steps.ship import ShipRequest, plan_ship, ship

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.remote.host import Host
    from cuzkops.steps.build import Artifact


class Shipper:
    """Ships small releases, each with an app layer and a key of its own."""

    def __init__(self, host: Host, make_artifact: Callable[..., Artifact], folder: Path) -> None:
        self.host, self.make_artifact, self.folder = host, make_artifact, folder
        self.n = 0

    def request(self, keep: int | None = None) -> ShipRequest:
        self.n += 1
        key = self.folder / f"key-{self.n}.zkey"
        key.write_bytes(b"%d" % self.n * 5000)
        config = load_configuration(None, circuits={f"c{self.n}": key})
        return ShipRequest(self.make_artifact(app=f"app {self.n}"), config, keep=keep)

    def ship(self, layout: Layout, keep: int | None = None) -> str:
        release_id = ship(self.host, layout, self.request(keep)).release_id
        at_ns = self.n * 10**9
        os.utime(layout.release(release_id), ns=(at_ns, at_ns))  # file times move in steps of a few milliseconds
        return release_id


@pytest.fixture
def shipper(host: Host, make_artifact: Callable[..., Artifact], tmp_path: Path) -> Shipper:
    return Shipper(host, make_artifact, tmp_path)


def listed(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir()}


def test_old_releases_go_with_their_layers_and_keys(host: Host, layout: Layout, shipper: Shipper) -> None:
    old, *kept = [shipper.ship(layout) for _ in range(3)]
    before = look(host, layout)
    result = clean(host, layout, 2)
    assert result.removed.releases == (old,)
    assert (len(result.removed.layers), len(result.removed.circuits)) == (1, 1)
    assert result.removed.unknown == ()
    assert result.freed_bytes > 0
    layer, key = result.removed.layers[0][:12], result.removed.circuits[0][:12]
    assert result.sentence.startswith(f"removed release {old}, layer {layer}, key {key}: ")
    after = look(host, layout)
    assert set(after.daemons[layout.name].releases) == set(kept)
    assert set(before.layers) - set(after.layers) == set(result.removed.layers)
    assert listed(layout.circuits) == set(after.circuits)
    assert {name.split(".")[0] for name in listed(layout.digests)} == {*after.layers, *after.circuits}
    assert json.loads(Path(layout.audit).read_text().splitlines()[-1])["action"] == "clean"
    assert clean(host, layout, 2).removed.is_empty


def test_what_is_in_use_stays(host: Host, layout: Layout, shipper: Shipper) -> None:
    before, current, runs, gone, newest = [shipper.ship(layout) for _ in range(5)]
    for release_id in (before, current):
        audit.append(host, layout, "launch", {"release_id": release_id})
    Path(layout.current).symlink_to(f"releases/{current}")
    Path(layout.daemon_json).write_text(json.dumps({"release_id": runs}))
    assert look(host, layout).daemons[layout.name].previous == before
    assert plan_clean(host, layout, 1).releases == (gone,)
    assert plan_clean(host, layout, 1, protect=(gone,)).is_empty
    assert clean(host, layout, 1).removed.releases == (gone,)
    assert listed(layout.releases) == {before, current, runs, newest}


def test_what_was_once_ready_stays_before_what_never_was(host: Host, layout: Layout, shipper: Shipper) -> None:
    good, bad, worse, current, newest = [shipper.ship(layout) for _ in range(5)]
    for release_id in (good, current):
        audit.append(host, layout, "launch", {"release_id": release_id})
    before = shipper.ship(layout)
    os.utime(layout.release(before), ns=(0, 0))
    audit.append(host, layout, "launch", {"release_id": before})
    audit.append(host, layout, "launch", {"release_id": current})
    Path(layout.current).symlink_to(f"releases/{current}")
    assert plan_clean(host, layout, 3).releases == (worse, bad)
    assert good not in plan_clean(host, layout, 3).releases
    assert newest not in plan_clean(host, layout, 1).releases


def test_what_another_daemon_uses_stays(host: Host, layout: Layout, shipper: Shipper) -> None:
    other = Layout(layout.remote_dir, "other")
    shared = shipper.request()
    ship(host, other, shared)
    mine = ship(host, layout, shared).release_id
    os.utime(layout.release(mine), ns=(0, 0))
    shipper.ship(layout)
    result = clean(host, layout, 1)
    assert result.removed.releases == (mine,)
    assert (result.removed.layers, result.removed.circuits) == ((), ())
    assert (Path(other.circuits) / next(iter(shared.config.circuits.values())).sha256).is_file()


def test_while_a_release_does_not_say_what_it_uses_everything_stays(
    host: Host, layout: Layout, shipper: Shipper
) -> None:
    old, damaged, _ = [shipper.ship(layout) for _ in range(3)]
    os.truncate(Path(layout.release(damaged)) / "manifest.json", 30)
    (Path(layout.release(damaged)) / "config.toml").unlink()
    plan = plan_clean(host, layout, 2)
    assert (plan.releases, plan.layers, plan.circuits, plan.unknown) == ((old,), (), (), (damaged,))


def test_a_ship_that_keeps_few_removes_the_others(host: Host, layout: Layout, shipper: Shipper) -> None:
    first = shipper.ship(layout)
    said: list[str] = []
    request = shipper.request(keep=1)
    result = ship(host, layout, request, say=said.append)
    assert result.cleaned is not None
    assert result.cleaned.removed.releases == (first,)
    assert said == [result.cleaned.sentence]
    assert listed(layout.releases) == {result.release_id}
    assert plan_ship(layout, request)[-1].title == "look at releases, layers and keys"


def test_a_plan_of_nothing_says_so(
    host: Host, layout: Layout, shipper: Shipper, capsys: pytest.CaptureFixture[str]
) -> None:
    shipper.ship(layout)
    assert cli.run(["clean", host.target.host, "--remote-dir", layout.remote_dir, "--dry-run"]) == 0
    said = capsys.readouterr()
    assert said.out == "nothing would run on the host\n"
    assert "everything there is in use or kept" in said.err
    for _ in range(2):
        shipper.ship(layout)
    assert cli.run(["clean", host.target.host, "--remote-dir", layout.remote_dir, "--dry-run", "--keep", "1"]) == 0
    assert "would remove release " in capsys.readouterr().err


def test_names_that_are_none_of_ours_are_left_alone(host: Host, layout: Layout, shipper: Shipper) -> None:
    shipper.ship(layout)
    strangers = [Path(layout.releases) / "*", Path(layout.layers) / "notes", Path(layout.digests) / "a b.files"]
    for stranger in strangers:
        stranger.mkdir()
    shipper.ship(layout)
    assert clean(host, layout, 1).removed.releases != ()
    assert all(stranger.exists() for stranger in strangers)


def test_a_beginning_names_a_release_that_only_one_has(host: Host, layout: Layout, shipper: Shipper) -> None:
    one, other = shipper.request(), shipper.request()
    ids = [ship(host, layout, ShipRequest(one.artifact, config)).release_id for config in (one.config, other.config)]
    with pytest.raises(UsageError, match=f"'{ids[0][:16]}' is the beginning of 2 releases on local: "):
        find_release(host, layout, ids[0][:16])
    assert [find_release(host, layout, name[:22]).release_id for name in ids] == ids


def test_the_releases_are_listed_with_what_a_rollback_goes_to(
    host: Host, layout: Layout, shipper: Shipper, capsys: pytest.CaptureFixture[str]
) -> None:
    before, current, damaged = [shipper.ship(layout) for _ in range(3)]
    for release_id in (before, current):
        audit.append(host, layout, "launch", {"release_id": release_id})
    Path(layout.current).symlink_to(f"releases/{current}")
    os.truncate(Path(layout.release(damaged)) / "manifest.json", 30)
    command = ["rollback", "local", "--remote-dir", layout.remote_dir, "--list"]
    assert cli.run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["releases"]
    assert [(release["release_id"], release["role"]) for release in found] == [
        (damaged, ""),
        (current, "current"),
        (before, "previous"),
    ]
    assert cli.run(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{damaged}            was never ready; its manifest cannot be read; another artifact, ")
    assert lines[1].startswith(f"{current}  current   built 20")
    assert "another" not in lines[1]
    assert lines[2].endswith("; another artifact, configuration, circuits than the current one")
    assert [release["was_ready"] for release in found] == [False, True, True]
    assert found[1]["differs"] == []


def test_the_advice_names_what_a_clean_would_free_and_else_what_lies_there(
    host: Host, layout: Layout, shipper: Shipper
) -> None:
    current = shipper.ship(layout)
    Path(layout.current).symlink_to(f"releases/{current}")
    text = advise(host, layout, 1 << 60, 0)
    assert text.startswith(f"{layout.remote_dir} holds layers ")
    assert "nothing of which a clean would remove: remove something else on that disk; no other disk" in text
    for _ in range(2):
        shipper.ship(layout)
    assert advise(host, layout, 1, 0).startswith("`cuzkops clean --keep 1` would free ")
    for _ in range(4):
        newest = shipper.ship(layout)
    text = advise(host, layout, 1, 0, protect=(newest,))
    assert text.startswith("`cuzkops clean --keep 5` would free ")
    assert text.endswith(" there (1 release, 1 layer, 1 key)")
    assert advise(host, layout, 1 << 60, 0).startswith("`cuzkops clean --keep 1` would free ")
    assert ", which is not enough; no other disk" in advise(host, layout, 1 << 60, 0)
    freed = clean(host, layout, 5).sentence
    assert freed.rpartition(": ")[2].removesuffix(" are free again") in text
