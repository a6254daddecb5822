"""docs/TIMELINE_FORMAT.md against the writer and the reader."""

from __future__ import annotations

import re
from pathlib import Path

from cuzkops.timing.parse import MAX_LINE_BYTES, LogEvent, parse_chunks
from prover.timeline import COMMON_KEYS, EVENTS, SCHEMA, VALUE, format_line, parse_line

DOCUMENT = (Path(__file__).parents[2] / "docs" / "TIMELINE_FORMAT.md").read_text()


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def documented_events() -> list[tuple[tuple[str, str], list[str]]]:
    found: list[tuple[tuple[str, str], list[str]]] = []
    for line in section("Events").splitlines():
        if not line.startswith("|") or line.startswith(("| family", "|---")):
            continue
        family, event, key, meaning = (cell.strip() for cell in line.strip("|").split("|"))
        assert meaning, line
        if family:
            found.append(((family, event), []))
        if key:
            found[-1][1].append(key.strip("`"))
    return found


def test_every_event_and_key_is_documented_in_the_order_of_writing() -> None:
    assert documented_events() == [(name, list(keys)) for name, keys in EVENTS.items()]


def test_the_common_keys_are_documented_in_their_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", section("Grammar"), re.MULTILINE) == list(COMMON_KEYS)


def test_the_examples_are_what_the_writer_writes() -> None:
    lines = DOCUMENT.partition("```timeline\n")[2].partition("```")[0].splitlines()
    assert len(lines) >= 5
    assert [format_line(parse_line(line)) for line in lines] == lines
    records = list(parse_chunks(["".join(f"{line}\n" for line in lines).encode()], "doc"))
    assert all(isinstance(record, LogEvent) and record.known for record in records)


def test_the_numbers_of_the_document() -> None:
    assert DOCUMENT.startswith(f"# The timing log, schema {SCHEMA}\n")
    assert f"at most {MAX_LINE_BYTES} bytes a line" in DOCUMENT


def test_the_characters_of_a_word() -> None:
    extra = re.search(r"word   = \( letter \| digit \| (.*?) \)", DOCUMENT)
    assert extra
    documented = set(re.findall(r'"(.)"', extra[1]))
    legal = {chr(code) for code in range(256) if VALUE.match(chr(code))}
    assert {c for c in legal if not (c.isascii() and c.isalnum())} == documented
    assert {c for c in map(chr, range(128)) if c.isalnum()} <= legal
