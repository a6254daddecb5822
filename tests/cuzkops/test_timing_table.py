"""Golden files: NAME.log in, NAME.txt and NAME.json out. On a mismatch what was got is written beside as *.got.

The logs are made from the templates of the grammar; no machine was measured for them.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cuzkops.timing.parse import parse_file
from cuzkops.timing.spans import build_timeline
from cuzkops.timing.table import TimingTable, tabulate

DATA = Path(__file__).parents[1] / "data" / "timelines"
LOGS = sorted(path.stem for path in DATA.glob("*.log"))


def table_of(name: str) -> TimingTable:
    return tabulate(build_timeline(parse_file(DATA / f"{name}.log", f"{name}.log")))


def check_golden(path: Path, got: str) -> None:
    beside = path.with_name(f"{path.name}.got")
    expected = path.read_text() if path.exists() else ""
    if got != expected:
        beside.write_text(got)
        pytest.fail(f"{path.name} differs: compare it with {beside}, and replace it if the new one is right")
    beside.unlink(missing_ok=True)


def test_there_are_logs() -> None:
    assert len(LOGS) >= 7


@pytest.mark.parametrize("name", LOGS)
def test_text(name: str) -> None:
    check_golden(DATA / f"{name}.txt", table_of(name).as_text())


@pytest.mark.parametrize("name", LOGS)
def test_json(name: str) -> None:
    check_golden(DATA / f"{name}.json", json.dumps(table_of(name).as_json(), indent=1) + "\n")


def test_a_golden_file_that_differs_fails_and_leaves_what_was_got(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("old\n")
    with pytest.raises(pytest.fail.Exception, match=r"x\.txt differs"):
        check_golden(tmp_path / "x.txt", "new\n")
    assert (tmp_path / "x.txt.got").read_text() == "new\n"


def test_the_statistics_against_plain_arithmetic() -> None:
    (run,) = table_of("two-circuits").runs
    mul60 = next(circuit for circuit in run.circuits if circuit.circuit == "mul60")
    verify = next(row for row in mul60.rows if row.phase == "verify")
    lines = (DATA / "two-circuits.log").read_text().splitlines()
    cold, *stated_us = [
        int(line.partition(" verify_us=")[2].split()[0])
        for line in lines
        if line.startswith("FIN_TIMING ") and " job=job-2 " not in line  # job-2 proves the other circuit
    ]
    stated_us.sort()
    assert (verify.n, verify.warm_up_ns) == (23, cold * 1000)
    assert verify.median_ns == stated_us[11] * 1000
    assert verify.p95_ns == stated_us[21] * 1000  # the 22nd of 23: the first rank that 95 % do not pass
    assert (verify.min_ns, verify.max_ns) == (stated_us[0] * 1000, stated_us[-1] * 1000)
    assert verify.total_ns == sum(stated_us) * 1000
    assert verify.share == pytest.approx(verify.total_ns / run.wall_ns, abs=1e-4)


def test_no_p95_below_twenty() -> None:
    (run,) = table_of("two-circuits").runs
    cube500 = next(circuit for circuit in run.circuits if circuit.circuit == "cube500")
    assert {row.p95_ns for row in cube500.rows} == {None}


def test_without_lines_there_is_an_empty_table_not_an_error() -> None:
    table = tabulate(build_timeline([]))
    assert table.as_text() == "no timing lines\n"
    assert table.as_json() == {"schema": 1, "runs": (), "bad_lines": (), "n_bad_lines": 0}


def test_a_share_above_the_whole_is_explained_at_the_table() -> None:
    for path in sorted(DATA.glob("*.txt")):
        text = path.read_text()
        above = any(float(share) > 100 for share in re.findall(r" ([0-9.]+)%", text))
        assert ("phases of several partitions overlap" in text) is above
    (run,) = table_of("two-circuits").runs
    rows = tuple(replace(row, share=1.551) for row in run.circuits[0].rows)
    circuit = replace(run.circuits[0], rows=rows)
    text = replace(table_of("two-circuits"), runs=(replace(run, circuits=(circuit,)),)).as_text()
    assert "155.1%" in text
    assert "phases of several partitions overlap, so it may exceed 100 %" in text
