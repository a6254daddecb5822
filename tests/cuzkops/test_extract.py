"""Another project's build: its Dockerfile with one stage more, and one path of the image with its digest."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from test_build import fake_client

from cuzkops import cli
from cuzkops.errors import OpsError, UsageError
from cuzkops.records import ExtractRecord
from cuzkops.steps.extract import ExtractRequest, extract, tree_sha256, with_stage

if TYPE_CHECKING:
    from pathlib import Path

# What an engine does with the stage that we add, as far as our side can tell: the path appears in the folder.
CLIENT = """
for word in "$@"; do
    case $last in -f) definition=$word ;; esac
    case $word in type=local,dest=*) dest=${word#type=local,dest=} ;; esac
    last=$word
done
tail -n 2 "$definition"
printf '%s\\n' "$@" >"$0.words"
"""
DOCKERFILE = "FROM rust AS build\nRUN cargo build\nFROM debian\nCOPY --from=build /src/daemon /usr/bin/daemon\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "their project"
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    return folder


def request(project: Path, body: str, **changes: Any) -> ExtractRequest:
    docker = fake_client(project.parent, CLIENT + body)
    fields = {"dockerfile": project / "Dockerfile", "context": project, "extract": "/usr/bin/daemon", "docker": docker}
    return ExtractRequest(**({**fields, "out": project.parent / "out"} | changes))


def test_one_stage_is_added_and_the_text_before_it_stays() -> None:
    text = with_stage(DOCKERFILE, None, "/usr/bin/daemon")
    assert text.startswith(DOCKERFILE.rstrip())
    assert text.splitlines()[-2:] == [
        "FROM scratch AS cuzkops-extract",
        'COPY --from=1 ["/usr/bin/daemon", "/daemon"]',
    ]
    assert 'COPY --from=build ["/a b/x", "/x"]' in with_stage(DOCKERFILE, "build", "/a b/x")
    with pytest.raises(UsageError, match="has no FROM"):
        with_stage("# nothing\n", None, "/x")


def test_a_file_comes_with_its_digest_size_and_revision(project: Path) -> None:
    git = ["git", "-C", str(project), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    lines: list[str] = []
    found = extract(request(project, 'printf daemon >"$dest/daemon"; chmod 755 "$dest/daemon"'), lines.append)
    assert found.path.read_bytes() == b"daemon"
    assert os.access(found.path, os.X_OK)
    record = ExtractRecord.model_validate_json((found.path.parent / "build.json").read_bytes())
    assert record == found.record
    assert (record.sha256, record.n_bytes) == (hashlib.sha256(b"daemon").hexdigest(), 6)
    assert (len(record.git), record.dirty, record.kind) == (40, False, "file")
    assert lines[-1] == 'COPY --from=1 ["/usr/bin/daemon", "/daemon"]'
    words = (project.parent / "docker-client.words").read_text().splitlines()
    assert words[:4] == ["build", "--progress=plain", "--target", "cuzkops-extract"]
    assert words[-1] == str(project)
    (project / "new").write_text("x")
    again = extract(request(project, 'printf "daemon 2" >"$dest/daemon"'), lines.append)
    assert (again.record.dirty, again.record.n_bytes) == (True, 8)
    assert again.record.git == record.git
    assert sorted(path.name for path in again.path.parent.iterdir()) == ["build.json", "daemon"]


def test_a_folder_has_one_digest_by_what_is_in_it(project: Path) -> None:
    body = 'mkdir -p "$dest/lib/a"; echo 1 >"$dest/lib/a/x"; ln -s x "$dest/lib/a/y"'
    found = extract(request(project, body, extract="/opt/lib", target="build"), lambda _: None)
    assert (found.record.kind, found.record.n_bytes, found.record.target) == ("folder", 2, "build")
    digest = found.record.sha256
    assert tree_sha256(found.path) == (digest, 2)
    (found.path / "a" / "x").chmod(0o755)
    assert tree_sha256(found.path)[0] != digest


MISSING = '#9 ERROR: failed to calculate checksum of ref abc::xyz: "/usr/bin/daemon": not found'
MISSING_BEFORE = 'failed to compute cache key: "/usr/bin/daemon" not found: not found'


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (f"echo '{MISSING}'; exit 1", "the last stage of .*Dockerfile has no /usr/bin/daemon"),
        (f"echo '{MISSING_BEFORE}'; exit 1", "the last stage of .*Dockerfile has no /usr/bin/daemon"),
        ('ln -s /nowhere "$dest/daemon"', "is neither a file nor a folder: it is a link"),
        ("exit 1", "docker build ended with status 1"),
    ],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_left(project: Path, body: str, sentence: str) -> None:
    with pytest.raises(OpsError, match=sentence):
        extract(request(project, body), lambda _: None)
    left = [path.name for path in project.parent.iterdir() if "docker-client" not in path.name]
    assert left == ["their project"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"extract": "usr/bin/x"}, "is not an absolute path of one file or folder"),
        ({"extract": "/"}, "is not an absolute path of one file or folder"),
        ({"extract": "/a/../b"}, "is not an absolute path of one file or folder"),
        ({"extract": "/bin/*"}, "is not an absolute path of one file or folder"),
        ({"extract": "/x/build.json"}, "build.json is the name of what is written beside it"),
        ({"target": "a stage"}, "'a stage' is not the name of a stage"),
        ({"docker": "no-such-client"}, "there is no Docker client 'no-such-client'"),
    ],
)
def test_a_wrong_request_is_refused(project: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as refused:
        extract(request(project, "exit 1", **changes), lambda _: None)
    assert sentence in refused.value.message


def test_all_that_is_wrong_is_said_at_once_and_nothing_else_is_replaced(project: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    changes = {"dockerfile": project / "none", "context": project / "none", "out": tmp_path / "mine"}
    with pytest.raises(UsageError) as refused:
        extract(request(project, "exit 1", **changes), lambda _: None)
    assert len(refused.value.details["problems"]) == 3  # type: ignore[arg-type] # a list, by this very test
    assert (tmp_path / "mine" / "notes").exists()


def test_the_command_says_what_it_made(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.parent)
    client = fake_client(project.parent, CLIENT + 'printf daemon >"$dest/daemon"')
    monkeypatch.setenv("CUZKOPS_DOCKER", client)
    words = ["build", "--context", str(project), "--extract", "/usr/bin/daemon", "--json"]
    assert cli.run(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["path"] == str(project.parent / "build" / "extracted" / "daemon")
    assert document["build"]["bytes"] == 6
    assert cli.run(["build", "--target", "x", "--json"]) == 2
    assert "--extract" in json.loads(capsys.readouterr().out)["error"]["hint"]


def test_a_dockerfile_that_is_no_text_is_refused(project: Path) -> None:
    (project / "Dockerfile").write_bytes(b"FROM \xff")
    with pytest.raises(UsageError, match=r"the Dockerfile .* cannot be read: .*invalid start byte"):
        extract(request(project, "exit 1"), lambda _: None)


def test_a_folder_that_cannot_be_written_is_said(project: Path) -> None:
    (project.parent / "file").touch()
    with pytest.raises(OpsError, match=r"file cannot be written: (Not a directory|File exists)"):
        extract(request(project, "exit 1", out=project.parent / "file" / "out"), lambda _: None)


def test_a_folder_with_a_name_like_ours_is_not_removed(project: Path) -> None:
    out = project.parent / "out"
    theirs = [project.parent / name for name in (".out-backup", ".out-cuzkops-notes", ".out-abcdefgh")]
    left = project.parent / ".out-cuzkops-abcdefgh"
    for folder in (*theirs, left):
        folder.mkdir()
        os.utime(folder, (0, 0))
    with pytest.raises(OpsError, match="ended with status 1"):
        extract(request(project, "exit 1", out=out), lambda _: None)
    assert all(folder.is_dir() for folder in theirs)
    assert not left.exists(), "what a killed process left is removed"
