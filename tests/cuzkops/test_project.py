from __future__ import annotations

from pathlib import Path

import pytest

from cuzkops.errors import UsageError
from cuzkops.project import Project, find_project
from cuzkops.toml import read_toml


def test_the_nearest_file_is_read_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    (tmp_path / "cuzkops.toml").write_text('target = "far"\n')
    near = tmp_path / "near"
    (near / "below").mkdir(parents=True)
    (near / "cuzkops.toml").write_text(
        'target = "gpu1"\nname = "p"\nremote_dir = "/srv"\nconfig = "conf/p.toml"\n'
        'builder = "local"\nbase_image = "b"\ngpu_archs = "90"\nidentity = "~/key"\n'
    )
    assert find_project(near / "below") == Project(
        target="gpu1",
        name="p",
        remote_dir="/srv",
        config=near / "conf" / "p.toml",
        builder="local",
        base_image="b",
        gpu_archs="90",
        identity=Path("~/key").expanduser(),
        file=near / "cuzkops.toml",
    )


def test_no_file_no_settings(tmp_path: Path) -> None:
    assert find_project(tmp_path).file is None


def test_every_problem_is_named_at_once(tmp_path: Path) -> None:
    (tmp_path / "cuzkops.toml").write_text('tarrget = "x"\nname = 3\nbuilder = "podman"\n[hooks]\na = 1\n')
    with pytest.raises(UsageError) as caught:
        find_project(tmp_path)
    for words in ("no key tarrget", "name is 3", "builder is 'podman'", "no key hooks", "cuzkops.toml"):
        assert words in caught.value.message
    assert "target, name, remote_dir, config, builder, base_image, gpu_archs, identity" in caught.value.hint


@pytest.mark.parametrize("content", [b"target = ", b"\xff", b"x", b"x = " + b"9" * 5000, b"x = " + b"[" * 5000])
def test_what_is_not_toml_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "cuzkops.toml").write_bytes(content)
    with pytest.raises(UsageError, match=r"cuzkops\.toml is not TOML"):
        find_project(tmp_path)


def test_a_home_of_nobody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cuzkops.toml").write_text('identity = "~nobody-here/key"\n')
    with pytest.raises(UsageError, match=r"identity in .*cuzkops\.toml is ~nobody-here/key, and no home folder"):
        find_project(tmp_path)


def test_a_path_with_a_nul_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cuzkops.toml").write_text('identity = "a\\u0000b"\n')
    with pytest.raises(UsageError, match=r"identity in .*cuzkops\.toml is 'a\\x00b': no file can be called so"):
        find_project(tmp_path)


def test_a_file_without_end_is_refused() -> None:
    with pytest.raises(UsageError, match="/dev/zero has more than 1048576 bytes"):
        read_toml(Path("/dev/zero"), "config")
