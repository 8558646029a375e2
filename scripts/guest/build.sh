#!/usr/bin/env bash
# Builds the test guest: a Debian kernel and an initramfs with busybox, corun and the cases.
#
#   scripts/guest/build.sh FOLDER CORUN [CASE...]
#
# FOLDER gets vmlinuz and initrd.gz; packages are kept there and fetched once. Nothing is installed.
# Without cases, all of scripts/guest/cases are taken.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/scripts/guest
mkdir -p "$1"
folder=$(cd "$1" && pwd)
corun=$(realpath "$2")
shift 2
cases=("$@")
((${#cases[@]})) || cases=("$here"/cases/*.sh)

# fetch NAME PATTERN: a Debian package, unpacked below packages/NAME.
fetch() {
  local name=$1 pattern=$2
  [[ -d $folder/packages/$name ]] && return
  mkdir -p "$folder/packages"
  (
    cd "$folder/packages"
    ls $pattern >/dev/null 2>&1 || apt-get download "$3" >/dev/null
    dpkg -x $pattern "$name.part"
    mv "$name.part" "$name"
    rm -f $pattern
  )
}
# The meta package names the kernel of the day.
if [[ ! -d $folder/packages/kernel ]]; then
  image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  [[ $image ]] || { echo "no kernel package: apt-get update first" >&2; exit 1; }
  fetch kernel "linux-image-*_amd64.deb" "$image"
fi
fetch busybox "busybox-static_*.deb" busybox-static

cp "$folder"/packages/kernel/boot/vmlinuz-* "$folder/vmlinuz"
tree=$folder/tree
rm -rf "$tree"
mkdir -p "$tree"/{bin,cases,dev,proc,run,sys,tmp,etc}
cp "$folder/packages/busybox/bin/busybox" "$tree/bin/"
cp "$here/init" "$tree/init"
cp "${cases[@]}" "$tree/cases/"
strip -o "$tree/bin/corun" "$corun"
# The libraries that it was linked with, at their own paths.
ldd "$corun" | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$tree$(dirname "$library")"
  cp -L "$library" "$tree$library"
done
mkdir -p "$tree/modules"
modules=$folder/packages/kernel/lib/modules
for module in fuse; do
  find "$modules" -name "$module.ko*" -exec cp {} "$tree/modules/" \;
done
(cd "$tree" && find . | cpio --quiet -o -H newc --owner 0:0 | gzip -1) >"$folder/initrd.gz"
