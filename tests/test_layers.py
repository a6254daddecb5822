"""The import rule of docs/ARCHITECTURE.md: who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# room -> the rooms of this project that it may import; the first entry that fits a module's path is its room.
ROOMS: dict[str, tuple[str, ...]] = {
    "cuzkops/commands": (
        "cuzkops.commands",
        "cuzkops.steps",
        "cuzkops.timing",
        # what a command has in its hands: the lock around its step, and the daemon that it shows
        "cuzkops.remote.daemon",
        "cuzkops.remote.lock",
        "cuzkops.configuration",
        "cuzkops.demo",
        "cuzkops.errors",
        "cuzkops.memory_curve",
        "cuzkops.memory_series",
        "cuzkops.paths",
        "cuzkops.project",
        "cuzkops.records",
        "cuzkops.rendering",
        "cuzkops.session",
        "cuzkops.state",
        "cuzkops.units",
    ),
    "cuzkops/steps": (
        "cuzkops.steps",
        "cuzkops.remote",
        "cuzkops.timing",
        "cuzkops.artifact",
        "cuzkops.configuration",
        "cuzkops.errors",
        "cuzkops.memory_series",
        "cuzkops.memory_verdict",
        "cuzkops.paths",
        "cuzkops.profiles",
        "cuzkops.records",
        "cuzkops.state",
        "cuzkops.target",
        "cuzkops.units",
    ),
    "cuzkops/remote": (
        "cuzkops.remote",
        "cuzkops.errors",
        "cuzkops.paths",
        "cuzkops.records",
        "cuzkops.state",
        "cuzkops.target",
        "cuzkops.units",
    ),
    "cuzkops/timing": ("cuzkops.timing", "cuzkops.errors", "cuzkops.units"),
    "cuzkops/artifact": ("cuzkops.artifact", "cuzkops.errors", "cuzkops.records", "kernels.build"),
    "cuzkops": ("cuzkops",),
    "prover": ("prover", "kernels"),
    "kernels": ("kernels",),
}
# The only modules of the daemon that the tool may read, and all that those may import besides each other.
SHARED = ("prover.protocol", "prover.timeline")
LIGHT = {"__future__", "collections.abc", "dataclasses", "enum", "os", "pydantic", "re", "threading", "time", "typing"}


def modules() -> list[Path]:
    return [path for top in ("cuzkops", "prover", "kernels") for path in sorted((ROOT / top).rglob("*.py"))]


def imports_of(path: Path, *, at_run_time: bool = False) -> set[str]:
    """Names that a module imports; ``at_run_time`` leaves out what serves annotations alone."""
    tree = ast.parse(path.read_text())
    if at_run_time:
        tree = _WithoutAnnotations().visit(tree)
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            # `from cuzkops import steps` names a module, `from cuzkops.steps.kill import kill` a function of one
            found |= {f"{node.module}.{alias.name}" for alias in node.names if is_module(f"{node.module}.{alias.name}")}
    return found


class _WithoutAnnotations(ast.NodeTransformer):
    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else self.generic_visit(node)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def within(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_only_what_its_room_may(path: Path) -> None:
    relative = str(path.relative_to(ROOT))
    allowed = next(rooms for prefix, rooms in ROOMS.items() if relative.startswith(f"{prefix}/"))
    if relative.startswith("cuzkops/"):
        allowed += SHARED
    # a command holds what session.open gives it, so it names types of remote; it calls only what the table says
    found = imports_of(path, at_run_time=relative.startswith("cuzkops/commands/"))
    ours = {name for name in found if name.split(".")[0] in ("cuzkops", "prover", "kernels")}
    packages = {"cuzkops", "prover", "kernels"}  # `from cuzkops import x` adds the bare package beside cuzkops.x
    assert {name for name in ours - packages if not within(name, allowed)} == set()


@pytest.mark.parametrize("name", SHARED)
def test_shared_modules_are_light(name: str) -> None:
    path = ROOT / (name.replace(".", "/") + ".py")
    assert imports_of(path) <= LIGHT | set(SHARED)


def test_what_a_host_gets_imports_nothing_that_stays_behind() -> None:
    shipped = [p for top in ("prover", "kernels") for p in (ROOT / top).rglob("*.py") if "gen" not in p.parts]
    assert shipped
    assert [p for p in shipped if any(within(n, ("kernels.gen",)) for n in imports_of(p))] == []


def test_rule_notices_a_forbidden_import(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("from prover import errors\nimport cuzkops.steps\n")
    assert {"prover.errors", "cuzkops.steps"} <= imports_of(bad)
    assert not within("prover.errors", (*ROOMS["cuzkops/steps"], *SHARED))
    assert not within("cuzkops.commands.kill", ROOMS["cuzkops/steps"])
    assert not within("cuzkops.remote.script", ROOMS["cuzkops/commands"])
    bad.write_text("if TYPE_CHECKING:\n    from prover import errors\nfrom cuzkops.remote import script\n")
    assert imports_of(bad, at_run_time=True) == {"cuzkops.remote", "cuzkops.remote.script"}
