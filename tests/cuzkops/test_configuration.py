from __future__ import annotations

import hashlib
import math
import tomllib
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prover.config
from cuzkops.configuration import CarriedCircuit, load_configuration
from cuzkops.errors import UsageError
from cuzkops.toml import dump_toml

if TYPE_CHECKING:
    from pathlib import Path

KEY = b"a proving key"
KEY_SHA256 = hashlib.sha256(KEY).hexdigest()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mul.zkey").write_bytes(KEY)
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "deploy.toml"
    path.write_text(text)
    return path


def test_a_local_path_becomes_the_digest_of_the_file(folder: Path) -> None:
    config = load_configuration(write(folder, '[[circuits]]\nname = "mul"\npath = "mul.zkey"\n'))
    assert config.text.decode() == f'[daemon]\nname = "prover"\n\n[[circuits]]\nname = "mul"\nsha256 = "{KEY_SHA256}"\n'
    assert config.sha256 == hashlib.sha256(config.text).hexdigest()
    assert config.circuits == {"mul": CarriedCircuit(KEY_SHA256, folder / "mul.zkey")}
    assert config.host_circuits == {}


def test_an_absolute_path_that_is_not_here_is_left_to_the_host(folder: Path) -> None:
    config = load_configuration(write(folder, '[[circuits]]\nname = "big"\npath = "/data/zk/big.zkey"\n'))
    assert config.host_circuits == {"big": "/data/zk/big.zkey"}
    assert config.circuits == {}
    assert tomllib.loads(config.text.decode())["circuits"] == [{"name": "big", "path": "/data/zk/big.zkey"}]


def test_other_keys_are_carried_unread(folder: Path) -> None:
    config = load_configuration(
        write(
            folder, '[daemon]\nname = "b"\n[memory]\nbudget = "2GiB"\nmargin = 3\n[a."b.c"]\nlist = [1, [true, 2.5]]\n'
        )
    )
    assert tomllib.loads(config.text.decode()) == {
        "daemon": {"name": "b"},
        "memory": {"budget": "2147483648B", "margin": 3},
        "a": {"b.c": {"list": [1, [True, 2.5]]}},
    }
    assert (config.name, config.budget_bytes) == ("b", 2 * 2**30)


def test_without_a_file_the_circuits_of_the_options_make_one(folder: Path) -> None:
    config = load_configuration(None, circuits={"mul": folder / "mul.zkey"}, budget="512MiB")
    assert tomllib.loads(config.text.decode()) == {
        "daemon": {"name": "prover"},
        "memory": {"budget": "536870912B"},
        "circuits": [{"name": "mul", "sha256": KEY_SHA256}],
    }
    assert config.budget_bytes == 512 * 2**20


@pytest.mark.parametrize(
    ("text", "budget_bytes"), [("1.5GB", 1_500_000_000), (" 2GiB", 2 << 30), ("2  GiB", 2 << 30), ("2GiB ", 2 << 30)]
)
def test_every_spelling_of_a_budget_is_one_that_the_daemon_reads(text: str, budget_bytes: int) -> None:
    config = load_configuration(None, budget=text)
    shipped = tomllib.loads(config.text.decode())["memory"]["budget"]
    assert config.budget_bytes == budget_bytes
    assert prover.config.parse_size_bytes(shipped) == budget_bytes


def test_a_circuit_of_the_options_is_relative_to_where_one_stands(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from pathlib import Path

    file = write(tmp_path_factory.mktemp("elsewhere"), "")
    monkeypatch.chdir(folder)
    config = load_configuration(file, circuits={"mul": Path("mul.zkey")})
    assert config.circuits["mul"].sha256 == KEY_SHA256


@pytest.mark.parametrize(("text", "budget_bytes"), [("auto", None), ("1GB", 10**9), ("3MB", 3 * 10**6)])
def test_auto_is_never_a_need(folder: Path, text: str, budget_bytes: int | None) -> None:
    assert load_configuration(write(folder, f'[memory]\nbudget = "{text}"\n')).budget_bytes == budget_bytes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "is not TOML"),
        ('[daemon]\nname = "-x"', "daemon.name is '-x'"),
        ("daemon = 3", "daemon is 3, not a table"),
        ("memory = 3", "memory is 3, not a table"),
        ("[memory]\nbudget = 3", "memory.budget: 3 is not a size"),
        ('[memory]\nbudget = "3 potatoes"', "memory.budget: '3 potatoes' is not a size"),
        (f"[memory]\nbudget = '{'9' * 400}TiB'", "no machine has that much"),
        (f"x = {'9' * 5000}", "is not TOML"),
        (f"x = {'[' * 5000}", "is not TOML"),
        ('[[circuits]]\nname = "a"\npath = "~nobody-here/a"', "no home folder is known for ~nobody-here"),
        (f'[[circuits]]\nname = "a"\npath = "{"a" * 300}"', "cannot be used: File name too long"),
        ('[[circuits]]\nname = "a"\npath = "/dev/zero"', "/dev/zero is not a regular file"),
        ("circuits = 3", "circuits is not a list of tables"),
        ('[[circuits]]\npath = "mul.zkey"', "circuits.0.name is None"),
        ('[[circuits]]\nname = "a"', "circuits.0 (a) has neither path nor sha256"),
        ('[[circuits]]\nname = "a"\npath = "no.zkey"', "no.zkey does not exist"),
        ('[[circuits]]\nname = "a"\npath = "."', "cannot be read: Is a directory"),
        ('[[circuits]]\nname = "a"\nsha256 = "12"', "circuits.0.sha256 of a is '12'"),
        (f'[[circuits]]\nname = "a"\npath = "/no/a"\nsha256 = "{"0" * 64}"', "has either path or sha256"),
        (f'[[circuits]]\nname = "a"\npath = "mul.zkey"\nsha256 = "{"0" * 64}"', f"has {KEY_SHA256}"),
    ],
)
def test_a_wrong_configuration_names_file_and_key(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_configuration(write(folder, text))
    assert said in caught.value.message
    assert "deploy.toml" in caught.value.message


def test_an_option_that_is_wrong_is_blamed_and_not_the_file(folder: Path) -> None:
    file = write(folder, '[[circuits]]\nname = "mul"\npath = "mul.zkey"\n')
    with pytest.raises(UsageError) as caught:
        load_configuration(file, circuits={"mul": folder / "mul.zkey"}, budget="lots")
    head, circuit, other, budget, hint = caught.value.message.splitlines()
    assert head == "2 problems:"
    assert circuit == f"(1) --circuit mul (besides {file}): circuit.name: 'mul' stands twice"
    assert other == "    hint: give one of them another name, or take it out"
    assert budget.startswith("(2) --budget: 'lots' is not a size: ")
    assert hint == "    hint: write for example 2GiB or 512MiB"


@pytest.mark.parametrize(
    ("there", "hint"),
    [(["mul_final.zkey", "x.toml"], "has mul_final.zkey"), (["other.zkey", "y"], "has other.zkey"), (["notes"], "")],
)
def test_a_key_that_is_not_there_has_neighbours(tmp_path: Path, there: list[str], hint: str) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    for name in there:
        (keys / name).touch()
    with pytest.raises(UsageError) as caught:
        load_configuration(write(tmp_path, '[[circuits]]\nname = "mul"\npath = "keys/mul.zkey"\n'))
    assert caught.value.hint == (f"{keys} {hint}" if hint else "")


def test_all_problems_are_named_at_once(folder: Path) -> None:
    text = '[memory]\nbudget = 1\n[[circuits]]\nname = "a"\n[[circuits]]\nname = "m"\npath = "mul.zkey"\n'
    text += '[[circuits]]\nname = "m"\npath = "mul.zkey"\n'
    with pytest.raises(UsageError) as caught:
        load_configuration(write(folder, text))
    problems = caught.value.details["problems"]
    assert isinstance(problems, list)
    assert len(problems) == 3
    assert "circuits.2.name: 'm' stands twice" in problems[1]


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_configuration(tmp_path / "none.toml")


def test_a_name_that_contradicts_the_file_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="name is 'a', but 'b' was asked for"):
        load_configuration(write(folder, '[daemon]\nname = "a"'), name="b")


SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates()
    | st.sampled_from([datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), time(23, 59), math.inf])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), VALUES, max_size=5))
def test_what_is_written_is_read_back(document: dict[str, object]) -> None:
    assert tomllib.loads(dump_toml(document)) == document


def test_what_toml_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="TOML has no NoneType"):
        dump_toml({"a": None})
