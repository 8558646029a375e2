#!/usr/bin/env bash
# Builds a real Kubernetes control plane for the tests: `scripts/build-control-plane.sh [FOLDER]`. Into FOLDER, by default
# ~/.cache/corun/control-plane, come etcd (Debian's package, unpacked and not installed) and from their Go modules
# kube-apiserver, kube-scheduler, kube-controller-manager, kubectl and kwok, which simulates nodes. It takes some 40
# minutes of CPU time on the first run; stopped and started again it goes on where it was. Needs go and apt-get.
set -euo pipefail

version=v1.34.4
staging=v0.34.4
kwok=v0.7.0
folder=${1:-${CORUN_CONTROL_PLANE:-$HOME/.cache/corun/control-plane}}
programs=(kube-scheduler kube-apiserver kubectl kube-controller-manager)

mkdir -p "$folder/src"
cd "$folder"
if [ ! -x etcd ]; then
    (cd src && apt-get download etcd-server && dpkg-deb --fsys-tarfile etcd-server_*.deb | tar -x ./usr/bin/etcd)
    mv src/usr/bin/etcd etcd
fi

cd src
if [ "$(cat version 2>/dev/null)" != "$version" ]; then
    rm -f go.mod go.sum
    source=$(go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    # Kubernetes takes its staging modules from its own tree, which the released module does not contain: they are
    # modules of their own, of the same release.
    {
        echo "module control-plane"
        grep -E '^(go|godebug) ' "$source/go.mod"
        sed -nE "s#^(\t|replace )*(k8s.io/[a-z-]+) => ./staging.*#replace \2 => \2 $staging#p" "$source/go.mod"
    } >go.mod
    go get -tool $(printf "k8s.io/kubernetes/cmd/%s@$version " "${programs[@]}")
    echo "$version" >version
fi
package=k8s.io/component-base/version
for program in "${programs[@]}"; do
    [ -x "../$program" ] && continue
    echo "corun: building $program $version" >&2
    nice go build -trimpath -ldflags "-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=34" \
        -o "../$program" "k8s.io/kubernetes/cmd/$program"
done
if [ ! -x ../kwok ]; then
    echo "corun: building kwok $kwok" >&2
    GOBIN="$folder" nice go install -trimpath -ldflags "-s -w" "sigs.k8s.io/kwok/cmd/kwok@$kwok"
fi
echo "corun: the control plane is in $folder"
