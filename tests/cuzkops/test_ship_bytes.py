"""How many bytes a redeploy really puts on the wire, counted where they are written."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from cuzkops.artifact.layers import build_id, unpack_layers, write_layer
from cuzkops.configuration import load_configuration
from cuzkops.remote import local
from cuzkops.steps.build import Artifact
from cuzkops.steps.ship import ShipRequest, ship

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

MOST_PERCENT = 2


def with_changed_python(artifact: Artifact, folder: Path) -> Artifact:
    """The artifact after one line of our own Python was changed."""
    out, app = folder / "changed", folder / "app"
    for made in (out, app):
        made.mkdir()
    *others, layer = artifact.manifest.layers
    unpack_layers([artifact.layer_path(layer)], app)
    with (app / "app" / "prover" / "pipeline.py").open("a") as file:
        file.write("# one line more\n")
    changed = write_layer(app, "app", out)
    for other in others:
        (out / artifact.layer_path(other).name).symlink_to(artifact.layer_path(other))
    layers = [*others, changed]
    return Artifact(out, artifact.manifest.model_copy(update={"layers": layers, "build_id": build_id(layers)}))


def test_changed_python_of_ours_sends_a_few_percent_of_the_artifact(
    host: Host, layout: Layout, local_artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_configuration(None)
    total_bytes = sum(layer.n_bytes for layer in local_artifact.manifest.layers)
    ship(host, layout, ShipRequest(local_artifact, config))
    n_sent = 0
    send = local.LocalChannel.send

    def counting(self: local.LocalChannel, data: bytes, *, timeout_s: float) -> None:
        nonlocal n_sent
        n_sent += len(data)
        send(self, data, timeout_s=timeout_s)

    monkeypatch.setattr(local.LocalChannel, "send", counting)
    changed = with_changed_python(local_artifact, tmp_path)
    result = ship(host, layout, ShipRequest(changed, config))
    assert result.sent == ("layer app",)
    assert result.bytes_sent < n_sent  # the scripts are on the wire, too
    assert n_sent < total_bytes * MOST_PERCENT / 100, f"{n_sent} of {total_bytes} bytes"
    shutil.rmtree(layout.remote_dir)
