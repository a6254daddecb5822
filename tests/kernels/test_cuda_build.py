"""The build of the cuda backend: what it compiles, when, and its sentences."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from kernels import build_cuda
from kernels.build import SOURCE_DIR, BuildError

if TYPE_CHECKING:
    from pathlib import Path


def test_every_stage_compiles_and_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on PATH")
    arguments = ["--out", str(tmp_path), "--archs", "90 compute_80", "vector"]
    assert build_cuda.main(arguments) == 0
    fatbin = tmp_path / "cuzkops_vector.fatbin"
    first = capsys.readouterr()
    assert first.out == f"{fatbin}\n"
    assert "vector: sm_90 cuzkops_combine: " in first.err
    assert " registers, stack 0, spills 0 + 0 bytes" in first.err
    assert build_cuda.is_current(fatbin)
    made = fatbin.stat().st_mtime_ns
    assert build_cuda.main(arguments) == 0
    assert fatbin.stat().st_mtime_ns == made
    assert capsys.readouterr().err == ""


def test_stages_are_the_files_and_their_digest_covers_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"ntt", "vector"} <= set(build_cuda.stages())
    for folder in ("cuda", "include"):
        shutil.copytree(SOURCE_DIR / folder, tmp_path / folder)
    monkeypatch.setattr(build_cuda, "SOURCE_DIR", tmp_path)
    before = build_cuda.sources_sha256("ntt")
    names = {path.name for path in build_cuda.sources("ntt")}
    assert {"ntt.cu", "pass.cuh", "loose.cuh", "field.hpp", "limbs32.hpp", "carry_chain.hpp"} <= names
    assert "vector.cu" not in names
    (tmp_path / "cuda" / "of_no_stage.cuh").write_text("\n")
    assert build_cuda.sources_sha256("ntt") == before
    with (tmp_path / "include" / "carry_chain.hpp").open("a") as header:
        header.write("\n")
    assert build_cuda.sources_sha256("ntt") != before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--archs", "ninety"], "architectures are numbers such as 90"),
        (["--archs", "\u0669\u0660"], "architectures are numbers such as 90"),  # digits, but not nvcc's
        (["--archs", " all "], "true ended well and wrote no cuzkops_"),
        (["--nvcc", "no-such-nvcc"], r"no CUDA compiler \(no-such-nvcc\)"),
        (["warp"], "there is no stage 'warp'"),
    ],
)
def test_wrong_arguments_are_sentences(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    values = dict(zip(arguments[::2], arguments[1::2], strict=False))
    nvcc = values.get("--nvcc", "true")  # any program that ends well: it is not asked to compile
    with pytest.raises(BuildError, match=sentence):
        build_cuda.build(tmp_path, nvcc, values.get("--archs", "90"), ["warp"] if arguments == ["warp"] else None)


def test_a_compiler_that_says_and_writes_nothing_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = tmp_path / "nvcc"
    silent.write_text("#!/bin/sh\nprintf '\\377'\n")  # as little text as can be
    silent.chmod(0o755)
    arguments = ["--out", str(tmp_path / "out"), "--nvcc", str(silent), "--archs", "90 compute_80", "vector"]
    assert build_cuda.main(arguments) == 1
    said = f"kernels.build_cuda: {silent} ended well and wrote no cuzkops_vector.fatbin: it is not nvcc\n"
    assert capsys.readouterr().err == f"vector: compiling for 2 targets\n{said}"
    assert list((tmp_path / "out").iterdir()) == []
