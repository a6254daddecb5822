"""What every test gets: a state directory of its own, no settings of the user, and skips that CI does not accept."""

from __future__ import annotations

import fcntl
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from cuzkops.steps.build import Artifact

ROOT = Path(__file__).parents[1]
# A shell that is not interactive starts background jobs with Ctrl-C and Ctrl-\ ignored, nohup does so with the hang-up,
# and children inherit that. Tests send the first and the last, and look at what is ignored.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

# Files of a minute and more begin first: one that began last would keep the other workers waiting.
LONG_FILES = (
    "test_deploy_sshd.py",
    "test_kernels_compilers.py",  # needs no artifact: the others of the first wait for one that is made
    "test_daemon_recovery.py",
    "test_demo.py",
    "test_host_loop.py",
    "test_docker_build.py",
    "test_cli_deployed.py",
    "test_hosts.py",
    "test_artifact_local.py",
    "test_first_contact.py",
    "test_convergence.py",
    "test_daemon.py",
)
REQUIRE_PEERS = os.environ.get("CUZKOPS_REQUIRE_PEERS") == "1"


@pytest.fixture(autouse=True)
def _clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test reads or writes what belongs to the user who runs it."""
    for name in ("CUZKOPS_TARGET", "CUZKOPS_KNOWN_HOSTS", "PROVER_RELEASE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "xdg-cache"))


@pytest.fixture(scope="session")
def local_artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact that `cuzkops build --builder local` makes of this tree, once for all workers of a run.

    Its runtime is kept between runs.
    """
    from cuzkops.steps.build import BuildRequest, build, load_artifact

    cache = ROOT / "build" / "test-cache"
    cache.mkdir(parents=True, exist_ok=True)
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # that of the run: each worker has one in it
    out = folder / "local-artifact"
    with pytest.MonkeyPatch.context() as patch, (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first worker makes it, the others find it
        if out.exists():  # a folder that was built comes there whole
            return load_artifact(out)
        patch.setenv("XDG_CACHE_HOME", str(cache))
        return build(BuildRequest("local", out), lambda _: None)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {name: rank for rank, name in enumerate(LONG_FILES)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))  # stable: the rest stays shuffled


def _forbid_skip(report: Any) -> None:
    if REQUIRE_PEERS and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        report.outcome = "failed"
        report.longrepr = f"every peer must be present here, yet: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report
