"""What is true on a host: one script and one pure parser a record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from cuzkops.errors import OpsError
from cuzkops.remote.host import Script
from cuzkops.remote.procfs import (
    TICKS_PER_S,
    Facts,
    Memory,
    parse_kib,
    parse_leftovers,
    parse_memory,
    parse_stats,
    threads_of,
)
from cuzkops.remote.script import LEFTOVERS, MEMORY, NVIDIA, PRELUDE, PROCESSES, SMI_TIMEOUT_S, TOOLS, roots

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cuzkops.remote.host import Host

MIN_BYTES = 64 << 20
"""Processes below this are never the reason why memory is short."""


class Gpu(Facts):
    """One line of nvidia-smi; null where it says [N/A]."""

    name: str
    total_bytes: int | None
    used_bytes: int | None


class HostFacts(Facts):
    """What a host is and has. Nothing in it needs more than sh, /proc, coreutils or busybox, and grep."""

    hostname: str
    kernel: str
    machine: str = Field(description='such as "x86_64"')
    boot_id: str
    uid: int
    user: str
    libc: Literal["glibc", "musl", "unknown"]
    libc_version: str = Field(description='such as "2.36"; empty where unknown')
    n_cpus: int
    cpu_flags: frozenset[str]
    memory: Memory
    thp: str = Field(description="transparent huge pages: always, madvise or never; empty where unknown")
    dev_shm: dict[str, int] = Field(description="files in /dev/shm, other tmpfs, SysV segments: bytes")
    folder: str
    folder_parent: str = Field(description="the folder itself, or the nearest parent that exists")
    folder_writable: bool
    folder_executable: bool
    disk_total_bytes: int
    disk_free_bytes: int
    disk_free_inodes: int | None = Field(default=None, description="null where the file system does not count them")
    folder_refusal: str = Field(default="", description='why nothing could be written there: "Permission denied"')
    current_in_the_way: bool = Field(default=False, description="current is there, and not the link that it should be")
    tools: frozenset[str]
    pythons: dict[str, str] = Field(description="path -> version of the interpreters found")
    nvidia_devices: list[str]
    nvidia_driver: str = Field(description="empty where there is none")
    nvidia_smi: Literal["missing", "ok", "failed", "hung"]
    gpus: list[Gpu]
    in_container: bool = Field(description="a guess: a container's marker files or an overlay as root")
    hides_processes: bool = Field(description="/proc is mounted with hidepid: other users' processes are invisible")

    @property
    def available_bytes(self) -> int:
        """What a new process may count on: see ``Memory``."""
        return self.memory.available_bytes


class ProcessInfo(Facts):
    """One process as it was when it was looked at; (pid, start_ticks) name it for the life of the boot."""

    pid: int
    start_ticks: int
    started_unix_s: float
    ppid: int
    session_id: int
    uid: int
    user: str
    state: str = Field(description="state letter of the thread group leader")
    n_live_threads: int = Field(description="threads outside of the states Z and X: none left means gone")
    thread_states: str = Field(description='state letters of the live threads, sorted, each once: "DS"')
    exe: str = Field(description="path without ' (deleted)'; empty where it cannot be read")
    cmdline: str
    footprint_bytes: int = Field(description="RssAnon + RssShmem + HugetlbPages")
    gpu_files: list[str]

    @property
    def label(self) -> str:
        """The process in a sentence: ``pid 812 (/opt/cuzk, root)``."""
        return f"pid {self.pid} ({self.exe or self.cmdline.strip() or 'executable not readable'}, {self.user})"


_FOLDER = r"""
folder() {
    parent=$FOLDER
    while [ ! -d "$parent" ] && [ "$parent" != "${parent%/*}" ]; do parent=${parent%/*}; done
    parent=${parent:-/}
    echo "parent $parent"
    df -Pk "$parent" | while read -r _ total _ free _; do echo "disk $total $free"; done
    df -Pi "$parent" | while read -r _ total _ free _; do echo "inodes $total $free"; done
    trial="$parent/.cuzkops-trial-$$"
    # cat says why a write fails; the printf of dash calls everything an I/O error.
    if refused=$( (umask 077 && printf '#!/bin/sh\nexit 0\n' | cat >"$trial" && chmod 700 "$trial") 2>&1); then
        echo "writable"
        "$trial" 2>/dev/null && echo "executable"
    else
        echo "refused ${refused##*: }"
    fi
    rm -f "$trial"
    if [ -e "$FOLDER/current" ] && [ ! -L "$FOLDER/current" ]; then echo "current in the way"; fi
}
"""

_PYTHONS = r"""
pythons() {
    for python in "$@"; do
        case "$python" in *-config | *\*) continue ;; esac
        python=$(command -v "$python") || continue
        version=$("$python" -I -S -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' </dev/null) &&
            echo "python $python $version"
    done
    :
}
exec 2>/dev/null
"""

_HOST = r"""
echo "uname $(uname -n) $(uname -r) $(uname -m)"
echo "boot $(cat "$PROC/sys/kernel/random/boot_id")"
echo "user $(id -u) $(id -un)"
for libc in /lib/ld-musl-*; do [ -e "$libc" ] && echo "musl"; done
echo "libc $(getconf GNU_LIBC_VERSION || ldd --version 2>&1 | head -n 1)"
echo "thp $(cat "$SYS/kernel/mm/transparent_hugepage/enabled")"
filter '^processor' <"$PROC/cpuinfo"
filter '^(flags|Features)' <"$PROC/cpuinfo" | head -n 1
filter '^[^ ]+ (/|/proc) (overlay|proc) ' <"$PROC/mounts"
for mark in /.dockerenv /run/.containerenv; do [ -e "$mark" ] && echo "container"; done
for tool in $TOOLS; do command -v "$tool" >/dev/null && echo "tool $tool"; done
pythons python3 /usr/bin/python3.[0-9]* /usr/local/bin/python3.[0-9]*
folder
nvidia
echo "memory"
memory "$(limited_cgroups)"
echo "leftovers"
leftovers
"""


def host_script(folder: str, *, kernel: dict[str, str] | None = None, smi_timeout_s: float = SMI_TIMEOUT_S) -> Script:
    """Build the script behind ``probe_host``. It writes a trial file beside ``folder`` and removes it.

    Args:
        folder: Absolute path of the folder to be used; it need not exist.
        kernel: ``roots(...)`` of a recording; the real folders by default.
        smi_timeout_s: How long nvidia-smi may take.
    """
    parameters = {
        **(kernel or roots()),
        "FOLDER": folder,
        "TOOLS": " ".join((*TOOLS, "timeout")),
        "SMI_TENTHS": str(round(smi_timeout_s * 10)),
    }
    pieces = PRELUDE + MEMORY + LEFTOVERS + NVIDIA + _FOLDER + _PYTHONS
    return Script("look at the host, with a trial file", pieces + _HOST, parameters, changes=True)


def probe_host(
    host: Host,
    folder: str,
    *,
    kernel: dict[str, str] | None = None,
    smi_timeout_s: float = SMI_TIMEOUT_S,
) -> HostFacts:
    """Look at a host, with one script. Arguments as for ``host_script``.

    Raises:
        OpsError: The host has no /proc that says how much memory there is.
    """
    script = host_script(folder, kernel=kernel, smi_timeout_s=smi_timeout_s)
    done = host.run(script, timeout_s=smi_timeout_s + 60).check()
    try:
        return parse_host(done.out, folder)
    except ValueError as error:
        raise OpsError("probe", f"{host.target} cannot be read: {error}", "the host needs Linux with /proc") from error


def parse_host(output: str, folder: str) -> HostFacts:
    """Read what ``host_script`` prints.

    Raises:
        ValueError: Memory or identity of the host is missing.
    """
    head, _, tail = output.partition("\nmemory\n")
    memory, _, leftovers = tail.partition("\nleftovers\n")
    lines = head.splitlines()
    uname, disk = _word(lines, "uname").split(), _word(lines, "disk", last=True).split()
    if len(uname) != 3:
        raise ValueError(f"uname says {uname}")
    inodes = [int(word) for word in _word(lines, "inodes", last=True).split() if word.isdigit()]
    uid, _, user = _word(lines, "user").partition(" ")
    libc, libc_version = _libc(lines)
    thp = re.search(r"\[(\w+)\]", _word(lines, "thp"))
    return HostFacts(
        hostname=uname[0],
        kernel=uname[1],
        machine=uname[2],
        boot_id=_word(lines, "boot"),
        uid=int(uid),
        user=user or uid,
        libc=libc,
        libc_version=libc_version,
        n_cpus=sum(line.startswith("processor") for line in lines),
        cpu_flags=frozenset(
            next((line for line in lines if re.match(r"flags|Features", line)), ":").split(":")[1].split()
        ),
        memory=parse_memory(memory),
        thp=thp[1] if thp else "",
        dev_shm=parse_leftovers(leftovers).held_bytes,
        folder=folder,
        folder_parent=_word(lines, "parent"),
        folder_writable="writable" in lines,
        folder_executable="executable" in lines,
        disk_total_bytes=int(disk[0]) * 1024 if disk else 0,
        disk_free_bytes=max(0, int(disk[1])) * 1024 if disk else 0,
        disk_free_inodes=inodes[1] if len(inodes) == 2 and inodes[0] else None,
        folder_refusal=_word(lines, "refused"),
        current_in_the_way="current in the way" in lines,
        tools=frozenset(_words(lines, "tool")),
        pythons=_parse_pythons(lines),
        nvidia_devices=_words(lines, "device"),
        nvidia_driver=driver_version(_word(lines, "driver")),
        nvidia_smi=_word(lines, "smi") or "missing",
        gpus=parse_gpus(lines),
        in_container="container" in lines or any(re.match(r"\S+ / overlay ", line) for line in lines),
        hides_processes=any(re.match(r"\S+ /proc proc .*hidepid=(?!0|off)", line) for line in lines),
    )


def pythons_script(names: Sequence[str]) -> Script:
    """Build the script behind ``probe_pythons``."""
    parameters = {f"PYTHON_{i}": name for i, name in enumerate(names)}
    call = " ".join(f'"${name}"' for name in parameters)
    return Script("look for interpreters", f"{_PYTHONS}\npythons {call}\n", parameters)


def probe_pythons(host: Host, names: Sequence[str]) -> dict[str, str]:
    """Ask interpreters for their version; returns path -> version of those that exist.

    Args:
        host: Where.
        names: Absolute paths, or names that are looked for in PATH.
    """
    return _parse_pythons(host.run(pythons_script(names)).check().out.splitlines())


def _parse_pythons(lines: Iterable[str]) -> dict[str, str]:
    return dict(word.rsplit(" ", 1) for word in _words(lines, "python") if " " in word)


def _words(lines: Iterable[str], key: str) -> list[str]:
    return [line[len(key) + 1 :].strip() for line in lines if line.startswith(f"{key} ")]


def _word(lines: Iterable[str], key: str, *, last: bool = False) -> str:
    words = _words(lines, key)
    return words[-1 if last else 0] if words else ""


def _libc(lines: list[str]) -> tuple[Literal["glibc", "musl", "unknown"], str]:
    text = _word(lines, "libc")
    version = re.search(r"\b(2\.\d+)", text)
    if version and "musl" not in text:  # a glibc host may have musl installed beside it
        return "glibc", version[1]
    return ("musl" if "musl" in lines or "musl" in text else "unknown"), ""


def driver_version(text: str) -> str:
    """Find the version in what the shell function ``nvidia`` prints of the driver; empty where there is none."""
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else ""


def parse_gpus(lines: Iterable[str]) -> list[Gpu]:
    """Read the GPUs among the lines that the shell function ``nvidia`` prints."""
    rows = (word.rsplit(",", 2) for word in _words(lines, "gpu") if word.count(",") >= 2)
    return [
        Gpu(name=name.strip(), total_bytes=_mib(total.strip()), used_bytes=_mib(used.strip()))
        for name, total, used in rows
    ]


def _mib(text: str) -> int | None:
    return int(text) << 20 if text.isdigit() else None


_PROCESSES = r"""
exec 2>/dev/null
filter '^btime ' <"$PROC/stat"
if [ -z "$PIDS" ]; then
    PIDS="$(big_processes "$MIN_KIB" | while read -r pid _; do echo "$pid"; done; gpu_holders)"
fi
seen=' '
for pid in $PIDS; do
    case "$seen" in *" $pid "*) ;; *) describe "$pid"; seen="$seen$pid " ;; esac
done
:
"""


def processes_script(
    *, pids: Sequence[int] | None = None, min_bytes: int = MIN_BYTES, kernel: dict[str, str] | None = None
) -> Script:
    """Build the script behind ``probe_processes``."""
    parameters = {
        **(kernel or roots()),
        "PIDS": " ".join(map(str, pids or ())),
        "MIN_KIB": str(max(1, min_bytes // 1024)),
    }
    return Script("look at processes", PRELUDE + PROCESSES + _PROCESSES, parameters)


def probe_processes(
    host: Host,
    *,
    pids: Sequence[int] | None = None,
    min_bytes: int = MIN_BYTES,
    kernel: dict[str, str] | None = None,
) -> list[ProcessInfo]:
    """Describe processes, the one with most memory first; those that do not exist are left out.

    Args:
        host: Where to look.
        pids: Exactly these; by default all that hold ``min_bytes`` or have a GPU's device file open.
        min_bytes: Least RssAnon + RssShmem + HugetlbPages, where ``pids`` is not given.
        kernel: ``roots(...)`` of a recording; the real folders by default.
    """
    if pids is not None and not pids:
        return []
    done = host.run(processes_script(pids=pids, min_bytes=min_bytes, kernel=kernel)).check()
    return parse_processes(done.out)


def parse_processes(output: str) -> list[ProcessInfo]:
    """Read what ``processes_script`` prints."""
    head, *blocks = re.split(r"^process (?=\d+$)", output, flags=re.MULTILINE)
    btime = re.search(r"^btime (\d+)", head, re.MULTILINE)
    found = (_parse_process(block, int(btime[1]) if btime else 0) for block in blocks)
    return sorted(filter(None, found), key=lambda process: (-process.footprint_bytes, process.pid))


def _parse_process(block: str, btime_unix_s: int) -> ProcessInfo | None:
    head, _, rest = block.partition("\nstats\n")
    pid, *lines = head.splitlines()
    stats = parse_stats(rest)
    if not stats or stats[0].pid != int(pid):
        return None  # it ended while it was looked at
    threads = threads_of(stats)
    leader = threads.leader
    sizes = parse_kib(lines)
    uid, _, user = _word(lines, "user").partition(" ")
    return ProcessInfo(
        pid=leader.pid,
        start_ticks=leader.start_ticks,
        started_unix_s=btime_unix_s + leader.start_ticks / TICKS_PER_S,
        ppid=leader.ppid,
        session_id=leader.session_id,
        uid=int(uid) if uid.isdigit() else -1,
        user=user or ("root" if uid == "0" else f"uid {uid}"),
        state=leader.state,
        n_live_threads=len(threads.live_states),
        thread_states=threads.states,
        exe=_word(lines, "exe").removesuffix(" (deleted)"),
        cmdline=_word(lines, "cmdline") or f"[{leader.comm}]",
        footprint_bytes=_footprint(sizes),
        gpu_files=sorted({match[1] for line in lines if (match := re.search(r" -> (/\S*nvidia\S*)$", line))}),
    )


def _footprint(sizes: dict[str, int]) -> int:
    if "RssAnon" not in sizes:  # kernels before 4.5 count only the whole
        return sizes.get("VmRSS", 0)
    return sum(sizes.get(key, 0) for key in ("RssAnon", "RssShmem", "HugetlbPages"))
