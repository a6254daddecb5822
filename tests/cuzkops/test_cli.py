from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer

from cuzkops import __version__, cli
from cuzkops import errors as tree
from cuzkops.commands.options import on_host, with_output
from cuzkops.errors import OpsError
from cuzkops.session import Place, Session
from cuzkops.state import LastPlace, open_state

ROOT = Path(__file__).parents[2]


def every_error() -> list[type[OpsError]]:
    found = [OpsError]
    for kind in found:
        found += kind.__subclasses__()
    return [kind for kind in found if kind.__module__ == tree.__name__]


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An app with one command ``probe`` whose work the test gives."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    work: dict[str, Any] = {}

    @with_output
    def probe_command(session: Session) -> None:
        """Probe."""
        work["do"](session)

    @on_host
    def where(place: Place) -> None:
        """Where."""
        place.screen.result({"target": str(place.target), "source": place.target_source}, "done")

    app.command("probe")(probe_command)
    app.command("where")(where)
    monkeypatch.setattr(cli, "app", app)
    return work


def test_every_error_gives_its_status_a_sentence_and_a_hint(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = every_error()
    assert sorted(kind.exit_status for kind in kinds) == [1, 2, 3, 4, 5, 6, 7]
    for kind in kinds:

        def fail(_: Session, kind: type[OpsError] = kind) -> None:
            raise kind("word", "what happened", "what to do", {"last_lines": ["the end"]})

        probe["do"] = fail
        assert cli.run(["probe"]) == kind.exit_status
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "error: what happened\n  | the end\nhint: what to do\n"


def test_an_error_is_one_json_document(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(session: Session) -> None:
        session.screen.say("on the way")
        raise OpsError("word", "what happened", "what to do", {"path": Path("/x"), "n": 3})

    probe["do"] = fail
    assert cli.run(["probe", "--json"]) == 1
    captured = capsys.readouterr()
    details = {"path": "/x", "n": 3}
    assert json.loads(captured.out) == {
        "error": {"code": "word", "message": "what happened", "hint": "what to do", "details": details}
    }
    assert "on the way" in captured.err


def test_the_errors_of_our_own_tests_are_really_all() -> None:
    assert {kind.__name__ for kind in every_error()} == {
        name for name, kind in vars(tree).items() if isinstance(kind, type) and issubclass(kind, OpsError)
    }


def test_our_own_fault_is_one_line_and_a_file(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(_: Session) -> None:
        raise ZeroDivisionError("by us\nsecond line")

    probe["do"] = fail
    assert cli.run(["probe"]) == 70
    first, second = capsys.readouterr().err.splitlines()
    assert first == "error: internal error: ZeroDivisionError: by us"
    file = Path(second.partition("the traceback is in ")[2].partition(";")[0])
    assert file.parent == open_state().root / "faults"
    assert "ZeroDivisionError: by us" in file.read_text()


def test_our_own_fault_without_a_state_folder_still_shows_the_traceback(
    probe: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))

    def fail(_: Session) -> None:
        raise ZeroDivisionError("by us")

    probe["do"] = fail
    assert cli.run(["probe", "--json"]) == 70
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "internal"
    assert "Traceback (most recent call last)" in captured.err


@pytest.mark.parametrize("kind", [KeyboardInterrupt, typer.Abort])
def test_an_interruption_says_what_is_left_running(
    kind: type[BaseException], probe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(session: Session) -> None:
        session.interrupted = "the daemon runs on; stop it with: cuzkops kill local"
        raise kind

    probe["do"] = fail
    assert cli.run(["probe", "--json"]) == 130
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "interrupted"
    assert "stop it with: cuzkops kill local" in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nonsense"], "--nonsense"),
        (["nonsense"], "nonsense"),
        (["probe", "--nonsense"], "--nonsense"),
        (["probe", "x"], "x"),
    ],
)
def test_wrong_usage_is_status_2_in_words_and_in_json(
    arguments: list[str], words: str, probe: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    probe["do"] = pytest.fail
    assert cli.run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert "--help" in captured.err
    assert cli.run([*arguments, "--json"]) == 2
    assert words in json.loads(capsys.readouterr().out)["error"]["message"]


def test_json_after_two_dashes_is_an_argument(probe: Any, capsys: pytest.CaptureFixture[str]) -> None:
    probe["do"] = pytest.fail
    assert cli.run(["probe", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_version_and_bare_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert cli.run([]) == 0
    assert "Usage: cuzkops" in capsys.readouterr().out


# -- targets


def where(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, str], str]:
    assert cli.run(["where", "--json", *arguments]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def test_the_target_is_the_argument_then_the_environment_then_the_project_then_the_last(
    probe: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del probe
    below = tmp_path / "project" / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    open_state().remember_place(LastPlace("last-host"))
    assert where(capsys) == (
        {"target": "last-host", "source": "the last command"},
        "target: last-host (from the last command)\n",
    )
    open_state().remember_place(LastPlace("last-host", "two", "/srv"))
    assert where(capsys)[1] == "target: last-host --name two --remote-dir /srv (from the last command)\n"
    (tmp_path / "project" / "cuzkops.toml").write_text('name = "three"\n')
    assert where(capsys)[1] == "target: last-host --remote-dir /srv (from the last command)\n"
    (tmp_path / "project" / "cuzkops.toml").write_text('target = "toml-host"\n')
    assert where(capsys) == (
        {"target": "toml-host", "source": "cuzkops.toml"},
        "target: toml-host (from cuzkops.toml)\n",
    )
    monkeypatch.setenv("CUZKOPS_TARGET", "")
    assert where(capsys)[0]["target"] == "toml-host"
    monkeypatch.setenv("CUZKOPS_TARGET", "root@[::1]:2222")
    assert where(capsys)[1] == "target: root@[::1]:2222 (from CUZKOPS_TARGET)\n"
    assert where(capsys, "ssh://box:22") == ({"target": "box:22", "source": "the command line"}, "target: box:22\n")


def test_without_any_target_all_places_are_named(
    probe: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    del probe
    monkeypatch.chdir(tmp_path)
    assert cli.run(["where"]) == 2
    captured = capsys.readouterr().err
    assert "CUZKOPS_TARGET" in captured
    assert "cuzkops.toml" in captured


def test_a_bad_target_says_where_it_came_from(
    probe: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del probe
    monkeypatch.setenv("CUZKOPS_TARGET", "host:99999")
    assert cli.run(["where"]) == 2
    assert "(from CUZKOPS_TARGET)" in capsys.readouterr().err


# -- starting


HEAVY = (
    "fabric",
    "invoke",
    "paramiko",
    "pydantic",
    "rich",
    "psutil",
    "asyncssh",
    "asyncio",
    "numpy",
    "cryptography",
    "prover",
    "kernels",
)


def modules_after(*arguments: str) -> set[str]:
    program = "import sys\nfrom cuzkops import cli\ncli.run(sys.argv[1:])\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_help_loads_nothing_heavy() -> None:
    loaded = modules_after("--help")
    assert loaded.isdisjoint(HEAVY)
    # Of what is not Python's own only this; the rest serves the environment itself.
    foreign = loaded - sys.stdlib_module_names - {"__main__", "_distutils_hack", "sitecustomize", "_virtualenv"}
    assert {name for name in foreign if not name.startswith(("__editable__", "_editable", "a1_coverage"))} <= {
        *("cuzkops", "typer", "shellingham", "typing_extensions", "annotated_doc", "coverage")
    }
    assert loaded.isdisjoint({"tempfile", "random", "http", "email", "logging", "sqlite3", "ssl", "socket", "decimal"})
    # Typer reads the options of a command with pydantic; that of the tool itself stays out of `--help`.
    assert modules_after("build", "--help").isdisjoint(set(HEAVY) - {"pydantic"})


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("cuzkops wait", ["wait-memory"]),
        ("cuzkops kill --gr", ["--grace"]),
        ("cuzkops runs c", ["compare"]),
        ("cuzkops runs show 2026", ["20261129-000000"]),
        ("cuzkops runs compare l", ["last"]),
    ],
)
def test_a_shell_completes_commands_options_and_runs(words: str, offered: list[str]) -> None:
    folder = open_state().run("20261129-000000").path
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    asked = {"_CUZKOPS_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run(
        [sys.executable, "-m", "cuzkops"], cwd=ROOT, env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == offered
    assert done.stderr == ""


def test_the_module_runs_and_ends_with_the_status() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cuzkops", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_process_in_order(number: signal.Signals) -> None:
    program = """
import time, typer
from cuzkops import cli
from cuzkops.commands.options import with_output
app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
@app.command()
@with_output
def wait(session) -> None:
    session.interrupted = "in order"
    try:
        print("waiting", flush=True)
        time.sleep(60)
    finally:
        print("tidied", flush=True)
app.command("other")(lambda: None)
cli.app = app
cli.main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program, "wait"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.1)
    os.kill(process.pid, number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "tidied\n")
    assert err == "error: interrupted: in order\n"


@pytest.mark.usefixtures("probe")
def test_an_empty_target_is_not_the_last_one(capsys: pytest.CaptureFixture[str]) -> None:
    open_state().remember_place(LastPlace("gpu1"))
    assert cli.run(["where", ""]) == 2
    assert "the host is missing (from the command line)" in capsys.readouterr().err


@pytest.mark.parametrize("ignored", [True, False])
def test_nohup_is_respected(probe: Any, monkeypatch: pytest.MonkeyPatch, ignored: bool) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    seen: list[bool] = []
    probe["do"] = lambda _: seen.append(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)
    monkeypatch.setattr(sys, "argv", ["cuzkops", "probe"])
    try:
        with pytest.raises(SystemExit):
            cli.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert seen == [ignored]


def test_no_home_folder_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", lambda _: (_ for _ in ()).throw(RuntimeError))
    assert cli.run(["where"]) == 2
    assert capsys.readouterr().err.startswith("error: the state folder is ~/.local/state, and no home folder is known")


@pytest.mark.usefixtures("probe")
@pytest.mark.parametrize("option", ["--name", "--remote-dir"])
def test_an_empty_option_is_not_the_default_daemon(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["where", "local", option, ""]) == 2
    assert f"error: {option} is empty" in capsys.readouterr().err


@pytest.mark.usefixtures("probe")
def test_a_current_folder_that_was_removed_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert cli.run(["where", "local"]) == 2
    assert "the current folder cannot be used: No such file or directory; was it removed?" in capsys.readouterr().err


def test_what_is_not_utf8_is_refused_once_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["prove", "a\udcff", "w", "local", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["message"] == r"the argument 'a\udcff' is not UTF-8"
