#!/usr/bin/env bash
# Puts the context of the container image together and builds the image: `scripts/build-container.sh CORUN KUBECTL OUT`.
# CORUN is a static corun, KUBECTL a static kubectl of the cluster's version, OUT the folder for the context. Without
# docker, podman or buildah the context is all that is made: any of them builds it elsewhere. BASE names another image
# with a shell to build on, as of a registry of one's own; the Containerfile has busybox's.
set -euo pipefail

corun=${1:?usage: scripts/build-container.sh CORUN KUBECTL OUT}
kubectl=${2:?usage: scripts/build-container.sh CORUN KUBECTL OUT}
out=${3:?usage: scripts/build-container.sh CORUN KUBECTL OUT}
root=$(cd "$(dirname "$0")/.." && pwd)
version=$("$root/scripts/version.sh")

mkdir -p "$out"
for program in "$corun" "$kubectl"; do
    if readelf -lW "$program" | grep -q INTERP; then
        echo "corun: $program is linked dynamically, and the image has no libraries" >&2
        exit 1
    fi
done
install -m 755 "$corun" "$out/corun"
install -m 755 "$kubectl" "$out/kubectl"
install -m 644 -t "$out" "$root/LICENSE-MIT" "$root/LICENSE-APACHE" "$root/packaging/container/Containerfile"

options=(--build-arg "VERSION=$version" ${BASE:+--build-arg "BASE=$BASE"} -t "corun:$version" -f "$out/Containerfile" "$out")
if command -v buildah >/dev/null; then
    buildah build "${options[@]}"
elif command -v podman >/dev/null; then
    podman build "${options[@]}"
elif docker info >/dev/null 2>&1; then
    docker build "${options[@]}"
else
    echo "corun: no docker, podman or buildah runs here: $out is the context, for" >&2
    echo "    podman build ${options[*]}" >&2
fi
