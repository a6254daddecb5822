"""Ask a shipped release what it thinks of its configuration on that host, and what it will need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UsageError, listed
from cuzkops.remote.ctl import parse_answer
from cuzkops.remote.host import Script
from cuzkops.steps.findings import finding_row, raise_findings
from prover.protocol import CheckAnswer, ErrorBody

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.findings import Finding
    from cuzkops.steps.verify import Release

_FACTS = "--cuzkops-facts--"
_MACHINES = {0x3E: "x86_64", 0xB7: "aarch64", 0xF3: "riscv64", 0x15: "ppc64le"}
_SIGNALS = {132: "SIGILL: this CPU lacks an instruction that it uses", 139: "SIGSEGV", 134: "SIGABRT", 137: "SIGKILL"}


@dataclass(frozen=True)
class StartFacts:
    """What is known about an executable that did not start.

    Args:
        status: Exit status that the shell saw.
        stderr: What it or the shell said.
        machine: ``uname -m`` of the host.
        libc: The C library as the host describes it, such as ``"glibc 2.31"``.
        elf_machine: Machine that the executable was built for, or an empty string where it is no ELF file.
        noexec: Mount point of the release if it is mounted noexec, or an empty string.
    """

    status: int
    stderr: str
    machine: str = ""
    libc: str = ""
    elf_machine: str = ""
    noexec: str = ""


def check(host: Host, layout: Layout, release_id: str) -> CheckAnswer:
    """Run the check of a release that was shipped.

    Args:
        host: The host.
        layout: Where things lie there.
        release_id: The release.

    Returns:
        The daemon's answer; problems in it are not raised (see ``raise_problems``).

    Raises:
        OpsError: The release does not start on this host; the sentence says why.
    """
    done = host.run(check_script(layout, release_id), timeout_s=300)
    found = parse_answer(done.stdout, CheckAnswer)
    if isinstance(found, CheckAnswer):
        return found
    if isinstance(found, ErrorBody):
        raise OpsError(found.code, f"the check of {release_id} failed: {found.message}", found.hint, found.details)
    facts = parse_start_facts(done.status, done.stderr.decode(errors="replace"))
    tail = facts.stderr.splitlines()[-10:]
    raise OpsError(
        "does-not-start",
        f"release {release_id} does not start on {host.target}: {explain_start(facts)}",
        details={"status": facts.status, "last_lines": tail},
    )


def raise_problems(answer: CheckAnswer, findings: Sequence[Finding] = ()) -> None:
    """Raise every problem of an answer at once, together with the errors that were found on the host.

    Args:
        answer: What the release says of its configuration.
        findings: What the host lacks for it.

    Raises:
        UsageError: There is a problem or an error; nothing was stopped or launched.
    """
    if not answer.problems and answer.ok:
        raise_findings(findings)
        return
    errors = [finding for finding in findings if finding.severity == "error"]
    rows = [(f"{problem.where}: {problem.message}", problem.hint) for problem in answer.problems]
    rows += [(f"{error.where}: {error.message}", error.hint) for error in errors]
    alone = rows[0] if len(rows) == 1 else None
    raise UsageError(
        "check",
        f"the daemon refuses its configuration on this host:\n{alone[0] if alone else listed(rows)}",
        alone[1] if alone else "",
        {
            "problems": [problem.model_dump() for problem in answer.problems],
            "findings": [finding_row(finding) for finding in findings],
        },
    )


def keys_named(text: str, layout: Layout, release: Release) -> str:
    """A sentence of the daemon in which each key is called by its circuit and the file it came from, too."""
    there = {f"{layout.circuits}/{sha256}": name for name, sha256 in release.circuits.items()}
    for path, name in there.items():
        source = release.sources.get(name)
        told = (
            f"{source} (circuit {name}, {path} on the host)"
            if source
            else f"the key of circuit {name} ({path} on the host)"
        )
        text = text.replace(path, told)
    return text


def check_script(layout: Layout, release_id: str) -> Script:
    """Run the check; where it does not even answer, collect on standard error what may explain that."""
    return Script(
        f"check release {release_id}",
        r"""
answer=$("$RELEASE/prover" serve --check-config --json --config "$RELEASE/config.toml" --remote-dir "$REMOTE_DIR")
status=$?
case "$answer" in
    '{'*) printf '%s\n' "$answer"; exit "$status" ;;
esac
{
    echo
    echo "$FACTS"
    echo "machine $(uname -m)"
    for musl in /lib/ld-musl-*; do [ -e "$musl" ] && echo "libc musl"; done
    echo "libc $(getconf GNU_LIBC_VERSION 2>/dev/null || ldd --version 2>&1 | head -n 1)"
    for file in "$RELEASE/runtime/prover" "$RELEASE/prover"; do
        [ -f "$file" ] && echo "head $(head -c 20 "$file" | od -An -v -tx1 | tr -d '\n')"
    done
    folder=$(cd "$RELEASE" && pwd -P)
    longest=
    while read -r _ point _ options _; do
        point=$(printf '%b' "$point")  # a space is written as \040
        case "$folder/" in
            "${point%/}"/*) [ "${#point}" -ge "${#longest}" ] && longest=$point found=$options ;;
        esac
    done </proc/mounts
    case ",$found," in *,noexec,*) echo "noexec $longest" ;; esac
} >&2
[ "$status" -ne 0 ] || status=1
exit "$status"
""",
        {"RELEASE": layout.release(release_id), "REMOTE_DIR": layout.remote_dir, "FACTS": _FACTS},
    )


def parse_start_facts(status: int, stderr: str) -> StartFacts:
    """Read what ``check_script`` collected."""
    said, _, rest = stderr.partition(f"\n{_FACTS}\n")
    facts: dict[str, str] = {}
    for line in rest.splitlines():
        word, _, value = line.partition(" ")
        if word != "head":
            facts.setdefault(word, value.strip())
        elif machine := _elf_machine(value):
            facts.setdefault("elf", machine)
    return StartFacts(
        status,
        said.strip(),
        machine=facts.get("machine", ""),
        libc=facts.get("libc", ""),
        elf_machine=facts.get("elf", ""),
        noexec=facts.get("noexec", ""),
    )


def explain_start(facts: StartFacts) -> str:
    """Say in one clause why an executable did not start."""
    wanted = re.findall(r"GLIBC_(\d+(?:\.\d+)+)' not found", facts.stderr)
    lines = facts.stderr.splitlines()
    if wanted:
        version = max(wanted, key=lambda text: [int(part) for part in text.split(".")])
        why = f"it needs GLIBC_{version}, and the host has {facts.libc or 'an older one'}; "
        why += "build it on an older base, as --builder docker does"
    elif facts.elf_machine and facts.machine and facts.elf_machine != facts.machine:
        why = f"it was built for {facts.elf_machine}, and the host is {facts.machine}"
    elif facts.status == 126 and facts.noexec:
        why = f"its folder is on a file system that is mounted noexec ({facts.noexec}); choose another remote folder"
    elif facts.status == 127 and facts.elf_machine and facts.libc.startswith("musl"):
        why = "it needs the GNU C library, and the host has musl"
    elif facts.status == 127 and facts.elf_machine and re.search(r"not found|No such file", facts.stderr):
        why = "the program loader that it names does not exist on the host"
    elif facts.status in _SIGNALS:
        why = f"it died of {_SIGNALS[facts.status]}"
    else:
        why = f"{lines[-1] if lines else 'it said nothing'} (status {facts.status})"
    return why


def _elf_machine(text: str) -> str:
    data = bytes.fromhex("".join(text.split()))
    if len(data) < 20 or data[:4] != b"\x7fELF":
        return ""
    number = int.from_bytes(data[18:20], "little" if data[5] == 1 else "big")
    return _MACHINES.get(number, f"machine {number}")
