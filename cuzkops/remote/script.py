"""Pieces of POSIX sh that several scripts share. They read /proc with the shell, coreutils or busybox, and grep.

Every script that uses them starts with ``PRELUDE``, which needs the parameters of ``roots()``: the folders that stand
for /proc, /dev and /sys, so that a folder of recorded files can take their place in a test.
"""

from __future__ import annotations

TOOLS = (
    "tar",
    "gzip",
    "sha256sum",
    "cp",
    "mv",
    "ln",
    "ls",
    "df",
    "mkdir",
    "rm",
    "chmod",
    "cat",
    "readlink",
    "tail",
    "head",
    "sort",
    "uniq",
    "wc",
)
"""What a host must have, beside a shell, to be shipped to and launched on. Everything else has a way without it."""

PRELUDE = """
LC_ALL=C BLOCK_SIZE=1024
export LC_ALL BLOCK_SIZE
filter() {  # without grep the whole text goes back and the parser picks its lines
    if command -v grep >/dev/null 2>&1; then grep -E "$1"; else cat; fi
}
"""

# /proc/uptime is the clock of every series: busybox `date` knows no fractions of a second.
MEMORY = r"""
limited_cgroups() {  # "v1 FOLDER" or "v2 FOLDER", the own group first, then its parents; only those with a limit
    [ -r "$PROC/self/cgroup" ] || return 0
    while IFS=: read -r _ controllers path; do
        case ",$controllers," in
            *,memory,*) climb v1 "$SYS/fs/cgroup/memory" memory.limit_in_bytes "$path" ;;
            ,,) climb v2 "$SYS/fs/cgroup" memory.max "$path" ;;
        esac
    done <"$PROC/self/cgroup"
}
climb() {
    path=${4%/}
    case "$path" in */..*) path= ;; esac  # the group lies outside of this cgroup namespace
    while :; do
        if [ -r "$2$path/$3" ]; then
            read -r limit <"$2$path/$3"
            case "$limit" in
                max | 922337203685*) ;;  # no limit: the largest multiple of a page
                *) echo "$1 $2$path" ;;
            esac
        fi
        [ -n "$path" ] || break
        path=${path%/*}
    done
}
memory() {  # $1: what limited_cgroups printed
    read -r uptime _ <"$PROC/uptime"
    echo "uptime $uptime"
    cat "$PROC/meminfo" "$PROC/vmstat" 2>/dev/null |
        filter '^(Mem(Total|Free|Available)|Shmem|Swap(Total|Free)|Hugetlb|nr_foll_pin_(acquired|released)):? '
    [ -r "$PROC/zoneinfo" ] && filter '^ +count: ' <"$PROC/zoneinfo" | {
        pages=0
        while read -r key count _; do [ "$key" = count: ] && pages=$((pages + count)); done
        echo "per_cpu_free_pages $pages"
    }
    [ -n "$1" ] && echo "$1" | while read -r version folder; do
        echo "cgroup $folder"
        if [ "$version" = v1 ]; then
            cat "$folder/memory.limit_in_bytes" "$folder/memory.usage_in_bytes" "$folder/memory.stat"
        else
            cat "$folder/memory.max" "$folder/memory.current" "$folder/memory.stat"
        fi | filter '^([0-9]+$|max$|(total_)?inactive_file )'
    done
    return 0
}
"""

# A PID alone may be reused. A process is dead once all its threads are: a leader that ended before them is a zombie
# while they hold the memory. A command name may hold spaces, parentheses and newlines: count from the last of them.
LIVES = r"""
fields() {  # sets $state and $start from the stat file $1
    text='' state=''
    while IFS= read -r line; do text="$text $line"; done <"$1"
    set -- ${text##*) }
    state=$1 start=${20}
}
lives() {  # whether process $1 is the one that started at $2 clock ticks, and has a thread outside of Z and X
    {
        fields "/proc/$1/stat"
        [ -n "$state" ] && [ "$start" = "$2" ] || return 1
        for task in "/proc/$1/task"/[0-9]*/stat; do
            fields "$task"
            case "$state" in '' | Z | [Xx]) ;; *) return 0 ;; esac
        done
        return 1
    } 2>/dev/null
}
"""

# Everything that holds memory without a process: files in /dev/shm, other tmpfs, SysV segments, free huge pages.
LEFTOVERS = r"""
leftovers() {
    echo "listing"
    ls -lnAsR "$DEV/shm" 2>/dev/null
    echo "tmpfs"
    while read -r _ point kind _; do
        case "$kind $point" in
            "tmpfs $DEV/shm" | *\\*) ;;
            tmpfs\ *) [ -d "$point" ] && df -Pk "$point" 2>/dev/null ;;  # containers bind files of /dev
        esac
    done <"$PROC/mounts"
    echo "sysv"
    cat "$PROC/sysvipc/shm" 2>/dev/null
    for pool in "$SYS"/kernel/mm/hugepages/hugepages-*; do
        [ -r "$pool/free_hugepages" ] && read -r free <"$pool/free_hugepages" &&
            echo "hugepages ${pool##*/hugepages-} $free"
    done
    echo "end-of-leftovers"
}
"""

# Sums in the shell, so that a host with thousands of processes sends a few lines.
PROCESSES = r"""
big_processes() {  # "PID KIB" of each process that holds at least $1 KiB (RssAnon + RssShmem + HugetlbPages)
    cat "$PROC"/[0-9]*/status 2>/dev/null | filter '^(State|Pid|RssAnon|RssShmem|HugetlbPages):' | {
        pid='' kib=0 state=''
        while read -r key value _; do
            case "$key" in
                State:) big "$1"; state=$value kib=0 ;;
                Pid:) pid=$value ;;
                RssAnon: | RssShmem: | HugetlbPages:) kib=$((kib + value)) ;;
            esac
        done
        big "$1"
    }
}
big() {
    [ "$state" = Z ] && kib=$(threads_kib)
    [ -n "$pid" ] && [ "$kib" -ge "$1" ] && echo "$pid $kib"
    return 0
}
threads_kib() {  # a leader that has ended shows no memory, and the threads that it left behind may hold all of it
    kib=0 n=0
    for status in "$PROC/$pid/task"/[0-9]*/status; do
        while read -r key value _; do
            case "$key" in RssAnon: | RssShmem: | HugetlbPages:) kib=$((kib + value)) n=1 ;; esac
        done 2>/dev/null <"$status"
        [ "$n" -eq 1 ] && break
    done
    echo "$kib"
}
view_of() {  # sets $view: the folder that shows the process's memory, which is a thread's where the leader has ended
    for view in "$PROC/$1" "$PROC/$1/task"/[0-9]*; do
        [ -n "$(readlink "$view/exe" 2>/dev/null)" ] && return
    done
    view=$PROC/$1
}
others() {  # what the larger processes hold, without those of $2: "big KIB" and the stat line of each
    big_processes "$1" | while read -r pid kib; do
        case " $2 " in *" $pid "*) continue ;; esac
        echo "big $kib"
        cat "$PROC/$pid/stat" 2>/dev/null
    done
}
threads() {  # the stat lines of each process of $* that exists: its leader's, then one a thread
    for pid in "$@"; do
        [ -r "$PROC/$pid/stat" ] || continue
        echo "process $pid"
        cat "$PROC/$pid/stat" "$PROC/$pid/task"/[0-9]*/stat 2>/dev/null
    done
}
members() {  # PIDs of the processes of session $1, without those of $2
    [ -n "$1" ] || return 0
    cat "$PROC"/[0-9]*/stat 2>/dev/null | filter "\\) [A-Za-z] [0-9]+ [0-9]+ $1 " | while read -r pid _; do
        case " $2 " in *" $pid "*) ;; *) echo "$pid" ;; esac
    done
}
gpu_holders() {  # PIDs with an open file below $DEV/nvidia*
    [ -n "$(echo "$DEV"/nvidia* | filter '[^*]$')" ] || return 0
    ls -l "$PROC"/[0-9]*/fd 2>/dev/null | filter "^$PROC/[0-9]+/fd:|-> $DEV/nvidia" | {
        pid=''
        while read -r line; do
            case "$line" in
                *" -> $DEV/nvidia"*) [ -n "$pid" ] && echo "$pid"; pid='' ;;
                "$PROC"/*/fd:) pid=${line%/fd:} pid=${pid##*/} ;;
            esac
        done
        :
    }
}
describe() {  # one process: owner, executable, command line, memory, threads, open GPU files
    [ -r "$PROC/$1/stat" ] || return 0
    uid=''
    while read -r key value _; do
        [ "$key" = Uid: ] && uid=$value && break
    done <"$PROC/$1/status"
    view_of "$1"
    echo "process $1"
    echo "user ${uid:-?} $(id -un "$uid" 2>/dev/null)"
    echo "exe $(readlink "$view/exe")"
    echo "cmdline $(head -c 4096 "$view/cmdline" | tr '\000\n' '  ')"
    filter '^(RssAnon|RssShmem|HugetlbPages|VmRSS):' <"$view/status"
    ls -l "$view/fd" | filter " -> $DEV/nvidia"
    echo "stats"
    cat "$PROC/$1/stat" "$PROC/$1/task"/[0-9]*/stat
    echo "end-of-process"
}
"""

SMI_TIMEOUT_S = 5

# Nothing may wait for nvidia-smi: on a wedged driver it hangs in state D, where not even SIGKILL ends it.
NVIDIA = r"""
nvidia() {
    for device in "$DEV"/nvidia*; do [ -e "$device" ] && echo "device $device"; done
    [ -r "$PROC/driver/nvidia/version" ] && read -r line <"$PROC/driver/nvidia/version" && echo "driver $line"
    command -v nvidia-smi >/dev/null 2>&1 || { echo "smi missing"; return 0; }
    answer=$(mktemp) || { echo "smi failed"; return 0; }
    nvidia-smi --query-gpu=name,memory.total,memory.used --format=csv,noheader,nounits \
        </dev/null >"$answer" 2>/dev/null &
    smi=$! waited=0 state=R
    while [ "$waited" -lt "$SMI_TENTHS" ]; do
        read -r line <"/proc/$smi/stat" && state=${line##*) } state=${state%% *}
        [ "$state" = Z ] && break
        [ -e "/proc/$smi" ] || break
        sleep 0.1 2>/dev/null || { sleep 1; waited=$((waited + 9)); }
        waited=$((waited + 1))
    done
    if [ "$waited" -ge "$SMI_TENTHS" ]; then
        kill -KILL "$smi"
        echo "smi hung"
    elif wait "$smi"; then
        echo "smi ok"
        while read -r line; do echo "gpu $line"; done <"$answer"
    else
        echo "smi failed"
    fi
    rm -f "$answer"
}
"""


def roots(proc: str = "/proc", dev: str = "/dev", sys: str = "/sys") -> dict[str, str]:
    """Return the parameters that name the kernel's folders; other folders are for recordings.

    Args:
        proc: Folder that stands for /proc.
        dev: Folder that stands for /dev.
        sys: Folder that stands for /sys.
    """
    return {"PROC": proc, "DEV": dev, "SYS": sys}
