"""Another project's Dockerfile, built by a real engine: one path of the image, with the same digest each time."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from cuzkops.errors import UsageError
from cuzkops.steps.extract import ExtractRequest, extract

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.peers

DOCKERFILE = """ARG BASE=scratch
FROM {base} AS build
COPY source.sh /src/
RUN mkdir -p /out/lib && cp /src/source.sh /out/daemon && chmod 755 /out/daemon && echo 1 >/out/lib/one
FROM {base}
COPY --from=build /out/daemon /usr/local/bin/daemon
"""


@pytest.fixture
def project(tmp_path: Path, base_image: str) -> Path:
    folder = tmp_path / "theirs"
    folder.mkdir()
    (folder / "source.sh").write_text("#!/bin/sh\necho their daemon\n")
    (folder / "secret").write_text("not for the engine")
    (folder / "Their.Dockerfile").write_text(DOCKERFILE.format(base=base_image))
    (folder / "Their.Dockerfile.dockerignore").write_text("secret\n")
    return folder


def test_a_file_and_a_folder_come_out_of_the_stage_that_was_named(project: Path, docker: str, tmp_path: Path) -> None:
    dockerfile = project / "Their.Dockerfile"
    first, again = (
        extract(
            ExtractRequest(dockerfile, project, "/usr/local/bin/daemon", tmp_path / name, docker=docker), lambda _: None
        )
        for name in ("first", "again")
    )
    assert first.record.sha256 == again.record.sha256
    said = subprocess.run([first.path], capture_output=True, text=True, check=True)
    assert said.stdout == "their daemon\n"
    assert first.record.git == ""
    request = ExtractRequest(dockerfile, project, "/out/lib", tmp_path / "lib", "build", docker=docker)
    assert (extract(request, lambda _: None).path / "one").read_text() == "1\n"
    missing = ExtractRequest(dockerfile, project, "/out/none", tmp_path / "none", "build", docker=docker)
    with pytest.raises(UsageError, match=r"stage build of .*Their\.Dockerfile has no /out/none"):
        extract(missing, lambda _: None)
    assert not (tmp_path / "none").exists()
