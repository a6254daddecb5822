"""The configuration: what is read, and every way in which it is wrong."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

import pytest

from prover.config import SECTIONS, ConfigProblemsError, Settings, load_config, parse_settings, parse_size_bytes
from prover.cuzk_toml import KEYS
from prover.errors import InputError
from prover.timeline import VALUE

EXAMPLE = Path(__file__).parents[2] / "playbooks" / "reference.toml"
DIGEST = "ab" * 32


def problems_of(text: str) -> dict[str, str]:
    settings, problems = parse_settings(text.encode())
    assert settings is None
    return {problem.where: problem.message for problem in problems}


def test_empty_file_is_the_defaults() -> None:
    settings, problems = parse_settings(b"")
    assert problems == []
    assert settings == Settings()


def test_example_names_every_key_and_its_default() -> None:
    config = load_config(EXAMPLE, Path("/nowhere"))
    assert config.settings.model_copy(update={"circuits": []}) == Settings()
    text = EXAMPLE.read_text()
    assert set(SECTIONS) == set(Settings.model_fields) == set(tomllib.loads(text))
    for name, model in SECTIONS.items():
        section = text[text.index(f"[{name}]") :].split("\n[", 1)[0]
        for key in model.model_fields:
            assert re.search(rf"^(# )?{key} = ", section, re.MULTILINE), f"{name}.{key}"


def test_example_circuits_are_there() -> None:
    config = load_config(EXAMPLE, Path("/nowhere"))
    assert [circuit.path.is_file() for circuit in config.circuits] == [True, True]


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("1B", 1), ("2GiB", 2 << 30), ("1.5 KiB", 1536), ("3TiB", 3 << 40), ("512MiB", 512 << 20)]
)
def test_sizes(text: str, n_bytes: int) -> None:
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "2", "2GB", "256G", "-1GiB", "1,5GiB", "GiB", "1e3B", "2 GiB "])
def test_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size"):
        parse_size_bytes(text)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("[daemon]\nnamex = 'x'", "daemon.namex", "did you mean name"),
        ("[daemon]\nzzz = 1", "daemon.zzz", "known here: name, drain_timeout_s"),
        ("[daemonn]\nname = 'x'", "daemonn", "did you mean daemon"),
        ("[daemon]\nname = 7", "daemon.name", "string"),
        ("[daemon]\nname = '../x'", "daemon.name", "pattern"),
        ("[daemon]\nqueue_limit = '64'", "daemon.queue_limit", "integer"),
        ("[daemon]\nqueue_limit = 0", "daemon.queue_limit", "greater than or equal to 1"),
        ("[daemon]\ndrain_timeout_s = 0", "daemon.drain_timeout_s", "greater than 0"),
        ("[daemon]\nlisten = '0.0.0.0:9820'", "daemon.listen", "not a loopback address"),
        ("[daemon]\nlisten = '127.0.0.1'", "daemon.listen", "is not an address"),
        ("[daemon]\nlisten = '127.0.0.1:99999'", "daemon.listen", "is not an address"),
        ("[daemon]\nlisten = 'example.org:80'", "daemon.listen", "is not an address"),
        ("[memory]\nbudget = '256G'", "memory.budget", "is not a size"),
        ("[memory]\nbudget = '0GiB'", "memory.budget", "fits nothing"),
        ("[memory]\nbudget = 5", "memory.budget", "string"),
        (f"[memory]\nbudget = '{'9' * 400}TiB'", "memory.budget", "more than any machine has"),
        (f"x = {'9' * 5000}", "file", "not TOML"),
        (f"x = {'[' * 5000}", "file", "not TOML"),
        ("memory = 5", "memory", "valid dictionary"),
        ("[synthesis]\nthreads = -1", "synthesis.threads", "greater than or equal to 0"),
        ("[logging]\nlevel = 'loud'", "logging.level", "'debug'"),
        ("[logging]\nmax_bytes = '1KiB'", "logging.max_bytes", "holds too little"),
        ("[logging]\nkeep_files = 0", "logging.keep_files", "greater than or equal to 1"),
        ("[daemon]\nconnection_limit = 2", "daemon.connection_limit", "greater than or equal to 8"),
        ("[daemon]\nidle_timeout_s = 0", "daemon.idle_timeout_s", "greater than 0"),
        ("[memory]\nwait_s = 'long'", "memory.wait_s", "number"),
        ("[gpus]\nbackend = 'vulkan'", "gpus.backend", "'host'"),
        ("[gpus]\nworkers = true", "gpus.workers", "integer"),
        ("[pipeline]\nlookahead = 0", "pipeline.lookahead", "greater than or equal to 1"),
        ("[pipeline]\nlook = 1", "pipeline.look", "did you mean lookahead"),
        ("[[circuits]]\npath = 'a'", "circuits.0.name", "missing"),
        ("[[circuits]]\nname = 'a'", "circuits.0", "either path or sha256"),
        (f"[[circuits]]\nname = 'a'\npath = 'a'\nsha256 = '{DIGEST}'", "circuits.0", "either path or sha256"),
        ("[[circuits]]\nname = 'a'\nsha256 = 'xyz'", "circuits.0.sha256", "pattern"),
        ("[[circuits]]\nname='a'\npath='b'\n[[circuits]]\nname='a'\npath='c'", "circuits", "the name a stands twice"),
        ("[daemon", "file", "not TOML"),
        ("[srs]\nparam_cache = '/data'", "file", "cuzk.toml of the Rust daemon"),
        ("[gpus]\ndevices = []", "file", "cuzk.toml of the Rust daemon"),
        ("[memory]\ntotal_budget = 'auto'", "file", "cuzk.toml of the Rust daemon"),
    ],
)
def test_mistakes_are_named_by_their_dotted_path(text: str, where: str, words: str) -> None:
    found = problems_of(text)
    assert list(found) == [where]
    assert words in found[where]


def test_a_cuzk_toml_is_explained_key_by_key() -> None:
    text = "[daemon]\nlisten = 'unix:///run/x'\n[gpus]\ngpu_threads = 32\n[srs]\nparam_cache = '/d'\n"
    (message,) = problems_of(text + "[pipeline]\nslot_size = 0").values()
    for words in ("gpus.gpu_threads: synthesis.threads", "pipeline.slot_size: not needed", "srs.param_cache: one [["):
        assert words in message
    own = "[gpus]\nbackend = 'host'\n[pipeline]\nlookahead = 2\n"
    assert parse_settings(own.encode())[1] == [], "sections of the same name are no sign of it"


def test_no_key_of_ours_is_taken_for_the_other_daemons() -> None:
    ours = {f"{name}.{key}" for name, model in SECTIONS.items() for key in model.model_fields}
    assert not ours & set(KEYS)
    named = {target for target in KEYS.values() if "." in target.split()[0] and "not needed" not in target}
    for target in named:
        assert target.split()[0].strip(",") in ours, target


def test_the_effective_configuration_is_one_word_of_the_log() -> None:
    settings, _ = parse_settings(b"[daemon]\nlisten = '[::1]:5'\n[[circuits]]\nname='a'\npath='/x y'")
    assert settings is not None
    options = settings.effective()
    assert VALUE.match(options)
    pairs = dict(pair.split(":", 1) for pair in options.split("/"))
    assert pairs["memory.budget"] == "auto"
    assert pairs["daemon.listen"] == "::1-:5"
    assert pairs["circuits"] == "a"
    assert set(pairs) - {"circuits"} == {
        f"{name}.{key}" for name, model in SECTIONS.items() for key in model.model_fields if name != "circuits"
    }


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[daemon]\nnamex = 'x'\nqueue_limit = 'many'\n[logging]\nlevel = 'loud'\n")
    with pytest.raises(ConfigProblemsError) as caught:
        load_config(file, tmp_path)
    assert {problem.where for problem in caught.value.problems} == {
        "daemon.namex",
        "daemon.queue_limit",
        "logging.level",
    }
    assert "3 problems" in caught.value.message
    assert caught.value.exit_status == 2


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigProblemsError, match="not TOML"):
        load_config(file, tmp_path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_config(tmp_path / "config.toml", tmp_path)


def test_where_circuits_lie(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf" / "config.toml"
    file.write_text(
        f"[[circuits]]\nname='a'\npath='keys/a.zkey'\n[[circuits]]\nname='b'\npath='/keys/b.zkey'\n"
        f"[[circuits]]\nname='c'\nsha256='{DIGEST}'\n"
    )
    config = load_config(file, tmp_path / "remote")
    assert [circuit.path for circuit in config.circuits] == [
        tmp_path / "conf" / "keys" / "a.zkey",
        Path("/keys/b.zkey"),
        tmp_path / "remote" / "circuits" / DIGEST,
    ]
    assert [circuit.sha256 for circuit in config.circuits] == [None, None, DIGEST]
    assert config.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert config.home == tmp_path / "remote" / "prover"


def test_a_home_that_nobody_has(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[[circuits]]\nname='a'\npath='~nobody-here/a.zkey'\n")
    with pytest.raises(InputError, match=r"the path of circuit a is ~nobody-here/a\.zkey, and no home folder is known"):
        load_config(file, tmp_path)


def test_a_file_without_end(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="/dev/zero has more than 1048576 bytes"):
        load_config(Path("/dev/zero"), tmp_path)
