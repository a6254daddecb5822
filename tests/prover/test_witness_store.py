"""Secret files: who may keep them, and when they go."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

import pytest

import prover.witness_store
from prover.errors import InputError, ProverError
from prover.protocol import JobRequest, WitnessRef
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    from pathlib import Path

DATA = b"wtns" + bytes(1000)
SHA = hashlib.sha256(DATA).hexdigest()
REQUEST = JobRequest(circuit="a", witnesses=[WitnessRef(sha256=SHA)] * 3)


@pytest.fixture
def store(tmp_path: Path) -> WitnessStore:
    (tmp_path / "w").mkdir(mode=0o700)
    return WitnessStore(tmp_path / "w", 2000)


def put(store: WitnessStore, data: bytes = DATA, sha256: str = SHA) -> None:
    with store.receive(sha256) as incoming:
        incoming.write(data[:10])
        incoming.write(data[10:])
        assert incoming.commit().n_bytes == len(data)


def files(store: WitnessStore) -> list[str]:
    return sorted(path.name for path in store._folder.iterdir())


def test_stored_for_its_owner_alone(store: WitnessStore) -> None:
    put(store)
    path = store.path_of(WitnessRef(sha256=SHA))
    assert path.read_bytes() == DATA
    assert path.stat().st_mode & 0o777 == 0o600
    assert files(store) == [SHA]


def test_other_digest_is_refused_and_erased(store: WitnessStore) -> None:
    with pytest.raises(InputError, match=f"has the digest {SHA}"):
        put(store, DATA, "0" * 64)
    assert files(store) == []


def test_too_large_is_refused_and_erased(store: WitnessStore) -> None:
    with pytest.raises(InputError, match="larger than 2000 bytes"):
        put(store, bytes(2001))
    assert files(store) == []


def test_a_sender_who_goes_away_leaves_nothing(store: WitnessStore) -> None:
    with store.receive(SHA) as incoming:
        incoming.write(DATA[:5])
        assert len(files(store)) == 1
    assert files(store) == []


def test_erased_when_the_last_job_that_needs_it_ends(store: WitnessStore) -> None:
    put(store)
    store.claim(REQUEST)
    store.claim(REQUEST)
    store.let_go(REQUEST)
    assert files(store) == [SHA]
    store.let_go(REQUEST)
    assert files(store) == []


def test_the_end_of_one_job_leaves_what_another_client_put(store: WitnessStore) -> None:
    put(store)
    put(store)
    store.claim(REQUEST)
    store.let_go(REQUEST)
    assert files(store) == [SHA]
    store.claim(REQUEST)
    store.let_go(REQUEST)
    assert files(store) == []


def test_what_nobody_claims_is_erased_in_time(store: WitnessStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store)
    monkeypatch.setattr(prover.witness_store, "UNCLAIMED_S", -1.0)
    other = b"other"
    put(store, other, hashlib.sha256(other).hexdigest())
    assert files(store) == []


def test_leftovers_are_erased_at_start(store: WitnessStore) -> None:
    put(store)
    assert files(WitnessStore(store._folder, 10)) == []


def test_what_an_unfinished_job_needs_survives_a_restart(store: WitnessStore) -> None:
    other = b"other"
    put(store)
    put(store, b"other".ljust(20), hashlib.sha256(other.ljust(20)).hexdigest())
    again = WitnessStore(store._folder, 2000, [REQUEST, REQUEST])
    assert files(again) == [SHA]
    again.let_go(REQUEST)
    again.erase_unneeded()
    assert files(again) == [SHA]
    again.let_go(REQUEST)
    assert files(again) == []


def test_a_witness_that_was_never_put(store: WitnessStore) -> None:
    with pytest.raises(InputError, match="witness 0 cannot be read: No such file"):
        store.claim(REQUEST)
    assert not store._needed


def test_only_whole_paths_of_regular_files(store: WitnessStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in [
        ("w.wtns", "not absolute"),
        (str(tmp_path), "not a regular file"),
        (str(tmp_path / "pipe"), "not a regular file"),
        (str(tmp_path / "missing"), "No such file"),
    ]:
        with pytest.raises(InputError, match=words):
            store.claim(JobRequest(circuit="a", witnesses=[WitnessRef(path=path)]))


def test_what_no_file_can_be_called(store: WitnessStore) -> None:
    with pytest.raises(InputError, match="no file can be called"):
        store.claim(JobRequest(circuit="a", witnesses=[WitnessRef(path="/a\0b")]))


@pytest.mark.parametrize("path", ["/\ud800", "/a\udcff"])
def test_a_path_that_is_not_utf8_is_no_witness(path: str) -> None:
    with pytest.raises(ValueError, match="the path is not UTF-8"):
        WitnessRef(path=path)


def test_what_cannot_be_erased_stops_nothing(store: WitnessStore, caplog: pytest.LogCaptureFixture) -> None:
    (store._folder / SHA).mkdir()
    with pytest.raises(ProverError, match="the witness cannot be stored"):
        put(store)
    store.erase_unneeded()
    assert "cannot be erased" in caplog.text
    (store._folder / SHA).rmdir()
    store._folder.rmdir()
    store.erase_unneeded()
    with pytest.raises(ProverError, match="the witness cannot be stored"):
        put(store)
