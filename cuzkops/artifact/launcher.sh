#!/bin/sh
# Start the prover of the release that this file lies in. Everything is replaced by exec: one process, one PID.
release=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 127
export PROVER_RELEASE_DIR="$release"

if [ -x "$release/runtime/prover" ]; then
    exec "$release/runtime/prover" "$@"
fi

# No interpreter in this release: the one that the build found, else any of the same minor version.
{ read -r version && read -r recorded; } <"$release/runtime/host-python" || {
    echo "prover: $release is not a whole release: runtime/prover and runtime/host-python are missing" >&2
    exit 127
}
for python in "$recorded" "python$version" python3; do
    found=$("$python" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
    if [ "$found" = "$version" ]; then
        exec "$python" -I -S -B "$release/runtime/boot.py" "$@"
    fi
done
echo "prover: this release needs Python $version on this host, and neither $recorded nor python$version nor python3 is one" >&2
exit 127
