"""A budget that can never be held is refused, whatever else is asked for; those of neighbours are added up."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import MIB, holding, recorded_kernel
from test_kill import write_daemon

from cuzkops.remote.layout import Layout
from cuzkops.remote.probes import probe_host
from cuzkops.steps.budgets import neighbour_budgets
from cuzkops.steps.doctor import examine_host
from cuzkops.steps.preflight import preflight_host

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cuzkops.remote.local import LocalHost


@pytest.fixture
def boxed(tmp_path: Path) -> dict[str, str]:
    """The kernel of a machine of 15 GiB whose control group allows 900 MiB."""
    group = {"memory.max": f"{900 * MIB}\n", "memory.current": f"{100 * MIB}\n", "memory.stat": "inactive_file 0\n"}
    files = {f"sys/fs/cgroup/box/{name}": text for name, text in group.items()} | {"proc/self/cgroup": "0::/box\n"}
    return recorded_kernel(tmp_path / "kernel", files=files)


@contextlib.contextmanager
def neighbour(layout: Layout, name: str, budget: str) -> Iterator[Layout]:
    """A daemon of another name with a budget, as far as a look can tell."""
    other = Layout(layout.remote_dir, name)
    with holding(5) as process:
        write_daemon(other, process.pid, api="/run/api.sock", release_id="r1")
        release = Path(other.release("r1"))
        release.mkdir(parents=True, exist_ok=True)
        (release / "config.toml").write_text(f'[memory]\nbudget = "{budget}"\n')
        yield other


@pytest.mark.parametrize("need_bytes", [None, MIB])
def test_a_budget_above_the_limit_is_refused_whatever_the_need(
    host: LocalHost, layout: Layout, boxed: dict[str, str], need_bytes: int | None
) -> None:
    report = preflight_host(host, layout, need_bytes, budget_bytes=901 * MIB, needs_gpu=False, kernel=boxed)
    (finding,) = (finding for finding in report.findings if finding.severity == "error")
    assert finding.code == "memory-budget"
    assert (
        "the memory budget of 901.00 MiB can never be held: this session may have 900.00 MiB in all" in finding.message
    )
    assert "--budget" in finding.hint
    assert "--need" not in finding.hint
    fits = preflight_host(host, layout, need_bytes, budget_bytes=900 * MIB, needs_gpu=False, kernel=boxed)
    assert [finding for finding in fits.findings if finding.severity == "error"] == []


def test_a_need_that_can_never_be_met_is_said_once_and_no_smaller_need_is_offered(
    host: LocalHost, layout: Layout, boxed: dict[str, str]
) -> None:
    report = preflight_host(host, layout, 901 * MIB, budget_bytes=901 * MIB, needs_gpu=False, kernel=boxed)
    (finding,) = (finding for finding in report.findings if finding.severity == "error")
    assert finding.code == "memory"
    assert "--need" not in finding.hint


def test_the_budgets_of_those_that_run_beside_it_are_added_up(
    host: LocalHost, layout: Layout, boxed: dict[str, str]
) -> None:
    def found(budget_mib: int) -> list[str]:
        report = preflight_host(host, layout, MIB, budget_bytes=budget_mib * MIB, needs_gpu=False, kernel=boxed)
        return [finding.message for finding in report.findings if finding.code == "memory-shared"]

    with neighbour(layout, "second", "500MiB") as second, neighbour(layout, "third", "auto"):
        assert neighbour_budgets(host, layout) == {"second": 500 * MIB}
        assert neighbour_budgets(host, second) == {}
        (message,) = found(401)
        assert "prover with 401.00 MiB" in message
        assert "second with 500.00 MiB" in message
        assert "make 901.00 MiB, and this session may have 900.00 MiB" in message
        assert found(400) == []
    assert found(401) == []  # it has ended


def test_doctor_warns_of_two_daemons_whose_budgets_exceed_the_machine(host: LocalHost, layout: Layout) -> None:
    most = probe_host(host, layout.home).memory.most_bytes // MIB
    with neighbour(layout, "prover", f"{most}MiB"), neighbour(layout, "second", "2MiB"):
        checks = {check.name: check for check in examine_host(host, layout)}
    assert checks["memory-shared"].state == "warning"
    assert "second with 2.00 MiB" in checks["memory-shared"].message
