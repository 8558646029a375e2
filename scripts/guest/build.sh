#!/usr/bin/env bash
# Builds the test guest: a Debian kernel and an initramfs with busybox, systemd, corun and the cases.
#
#   scripts/guest/build.sh [--new-kernel EXAMPLES] FOLDER CORUN [CASE...]
#
# --new-kernel: the kernel of Debian's backports, which has sched_ext, and scripts/guest/kernel-cases, which use programs
# of the folder EXAMPLES (target/debug/examples: cargo build -p corun-scx --example scx_exercise, and -p corun-live
# --example resctrl_server). Those of long-kernel-cases take longer than a test may: name them.
# FOLDER gets vmlinuz and initrd; packages are kept there, or in PACKAGES, and fetched once. Nothing is installed.
# KILLED: the test program `killed` of corun-live (cargo test -p corun-live --test killed --no-run), for the case in
# scripts/guest/kill-cases; boot.sh FOLDER CPU-SECONDS corun_kills=N says how many kills it makes.
# Without cases, all of scripts/guest/cases are taken, and after them those of systemd-cases, which
# run under systemd; with the newer kernel, those of kernel-cases. A case is of systemd when its folder is.
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/scripts/guest
new_kernel=false
if [[ $1 == --new-kernel ]]; then
  new_kernel=true
  examples=$(realpath "$2")
  shift 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)
packages=${PACKAGES:-$folder/packages}
mkdir -p "$packages"
packages=$(cd "$packages" && pwd)
corun=$(realpath "$2")
shift 2
cases=("$@")
if ((${#cases[@]} == 0)); then
  cases=("$here"/cases/*.sh "$here"/systemd-cases/*.sh)
  ! $new_kernel || cases=("$here"/kernel-cases/*.sh)
fi
# systemd_cases: those of the cases.
systemd_cases() { for case in "${cases[@]}"; do [[ $(basename "$(dirname "$case")") != systemd-cases ]] || echo "$case"; done; }

# Guests that are built at once may share what is fetched.
exec 9>"$packages/lock"
flock 9

# fetch NAME PATTERN PACKAGE: a Debian package, unpacked below packages/NAME.
fetch() {
  local name=$1 pattern=$2
  [[ -d $packages/$name ]] && return
  (
    cd "$packages"
    ls $pattern >/dev/null 2>&1 || apt-get download "$3" >/dev/null
    dpkg -x $pattern "$name.part"
    mv "$name.part" "$name"
    rm -f $pattern
  )
}
# The meta package names the kernel of the day. That of the backports comes from a list of its own: the machine's
# list of packages stays as it is.
if $new_kernel && [[ ! -d $packages/kernel ]]; then
  apt=$packages/apt
  mkdir -p "$apt"/{state/lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian trixie-backports main" \
    >"$apt/sources.list"
  printf '%s\n' "Dir::State \"$apt/state\";" "Dir::Cache \"$apt/cache\";" \
    "Dir::Etc::SourceList \"$apt/sources.list\";" 'Dir::Etc::SourceParts "/dev/null";' >"$apt/apt.conf"
  export APT_CONFIG=$apt/apt.conf
  apt-get update >/dev/null
  version=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: linux-image-\([0-9].*\)/\1/p' | head -1)
  [[ $version ]] || { echo "no kernel package in the backports" >&2; exit 1; }
  fetch kernel-base "linux-base-*_amd64.deb" "linux-base-$version"
  fetch kernel-modules "linux-modules-*_amd64.deb" "linux-modules-$version"
  fetch kernel "linux-binary-*_amd64.deb" "linux-binary-$version"
  unset APT_CONFIG
fi
if [[ ! -d $packages/kernel ]]; then
  image=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
  [[ $image ]] || { echo "no kernel package: apt-get update first" >&2; exit 1; }
  fetch kernel "linux-image-*_amd64.deb" "$image"
fi
fetch busybox "busybox-static_*.deb" busybox-static

# systemd and the libraries that it needs, in one tree.
if [[ $(systemd_cases) && ! -d $packages/systemd ]]; then
  rm -rf "$packages"/systemd.{debs,part}
  mkdir -p "$packages"/systemd.{debs,part}
  (
    cd "$packages/systemd.debs"
    needed=$(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
      --no-replaces --no-enhances systemd | grep -E '^(systemd|lib.*|zlib1g|mount)$' | sort -u)
    apt-get download $needed >/dev/null
    for package in *.deb; do dpkg --fsys-tarfile "$package" | tar -x -C ../systemd.part \
      --exclude=./usr/share --exclude='*.mo'; done
  )
  rm -rf "$packages/systemd.debs"
  mv "$packages/systemd.part" "$packages/systemd"
fi
flock -u 9

# uncompressed FROM TO: a kernel as the emulator can start it at once: unpacking it takes the guest 0.85 billion instructions.
# The header of such a file says where the compressed part begins and how long it is; its last 4 bytes are the length of
# what comes out. A kernel compressed otherwise than by zstd is left as it is.
uncompressed() {
  local at length
  at=$((($(od -An -tu1 -j$((0x1f1)) -N1 "$1") + 1) * 512 + $(od -An -tu4 -j$((0x248)) -N4 "$1")))
  length=$(($(od -An -tu4 -j$((0x24c)) -N4 "$1") - 4))
  dd if="$1" of="$2.zst" iflag=skip_bytes,count_bytes skip="$at" count="$length" bs=1M status=none
  zstd -qdc "$2.zst" >"$2" 2>/dev/null || cp "$1" "$2"
  rm "$2.zst"
}

if $new_kernel; then
  uncompressed "$packages"/kernel/usr/lib/modules/*/vmlinuz "$folder/vmlinuz"
  touch "$folder/one-thread"
else
  cp "$packages"/kernel/boot/vmlinuz-* "$folder/vmlinuz"
fi
tree=$folder/tree
rm -rf "$tree"
mkdir -p "$tree"/{usr/{bin,sbin,lib,lib64,local/bin},cases,systemd-cases,dev,proc,run,sys,tmp,etc/corun,var,root}
for name in bin sbin lib lib64; do ln -s usr/$name "$tree/$name"; done
for case in "${cases[@]}"; do
  cp "$case" "$tree/$(basename "$(dirname "$case")" | grep -x systemd-cases || echo cases)/"
done
cp "$here/explain-cases/judge" "$tree/cases/"
if [[ $(systemd_cases) ]]; then
  for part in "$packages"/systemd/*; do
    cp -a "$part/." "$tree/$(basename "$part")/"
  done
  cp "$root"/packaging/corun.{service,socket} "$tree/etc/systemd/system/"
  # They look for disks and the like, which the guest does not have: a tenth of systemd's start.
  rm -f "$tree"/usr/lib/systemd/system-generators/*
fi
cp "$packages/busybox/bin/busybox" "$tree/bin/"
cp "$here/init" "$tree/init"
strip -o "$tree/usr/local/bin/corun" "$corun"
ln -s /usr/local/bin/corun "$tree/bin/corun"
# busybox's takes no lists of CPUs.
cp "$(command -v taskset)" "$(command -v chrt)" "$(command -v renice)" "$tree/usr/local/bin/"
if $new_kernel; then
  for example in scx_exercise resctrl_server; do
    [[ ! -x $examples/$example ]] || strip -o "$tree/bin/$example" "$examples/$example"
  done
fi
[[ -z ${KILLED:-} ]] || strip -o "$tree/bin/killed" "$KILLED"
# The libraries that they were linked with, at their own paths.
ldd "$corun" ${KILLED:+"$KILLED"} | grep -v ':$' | grep -o '/[^ ]*' | sort -u | while read -r library; do
  mkdir -p "$tree$(dirname "$library")"
  cp -L --remove-destination "$library" "$tree$library"
done
mkdir -p "$tree/modules"
for module in fuse lzo-rle lz4hc_compress zsmalloc zram; do
  find "$packages"/kernel* -name "$module.ko*" -exec cp {} "$tree/modules/" \;
done
# The kernel does not unpack them.
find "$tree/modules" -name '*.xz' -exec xz -d {} +
# Not compressed: an emulated CPU takes seconds to undo that.
(cd "$tree" && find . | cpio --quiet -o -H newc --owner 0:0) >"$folder/initrd"
