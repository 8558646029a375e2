#!/usr/bin/env bash
# Makes the Debian package of what is built already: `scripts/build-deb.sh BUILT OUT`. BUILT is cargo's folder with
# corun and deps/libcorun_trace.so, OUT the folder for corun_VERSION_ARCHITECTURE.deb. The same commit and the same
# programs give the same bytes. DEB_MAINTAINER says who answers for the package; DEB_COMPRESSION=none is quick, for
# tests.
set -euo pipefail

built=${1:?usage: scripts/build-deb.sh BUILT OUT}
out=${2:?usage: scripts/build-deb.sh BUILT OUT}
root=$(cd "$(dirname "$0")/.." && pwd)
packaging=$root/packaging
compression=${DEB_COMPRESSION:-xz}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -1)
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
maintainer=${DEB_MAINTAINER:-The corun authors <corun@localhost>}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
umask 022
mkdir -p "$tree/DEBIAN"

install -D -m 755 "$built/corun" "$tree/usr/bin/corun"
install -D -m 644 "$built/deps/libcorun_trace.so" "$tree/usr/lib/corun/libcorun_trace.so"
strip --strip-unneeded --remove-section=.comment "$tree/usr/bin/corun" "$tree/usr/lib/corun/libcorun_trace.so"

units=$tree/usr/lib/systemd/system
mkdir -p "$units"
for unit in corun corun-page; do
    sed 's|/usr/local/bin/|/usr/bin/|' "$packaging/$unit.service" >"$units/$unit.service"
done
install -m 644 "$packaging/corun.socket" "$units/corun.socket"
install -D -m 644 "$packaging/sysusers.conf" "$tree/usr/lib/sysusers.d/corun.conf"
install -D -m 644 "$packaging/debian/config.toml" "$tree/etc/corun/config.toml"

share=$tree/usr/share
"$root/scripts/install-documentation.sh" "$tree/usr/bin/corun" "$share"
# Debian's zsh looks here.
mkdir -p "$share/zsh/vendor-completions"
mv "$share/zsh/site-functions/_corun" "$share/zsh/vendor-completions/_corun"
rmdir "$share/zsh/site-functions"
gzip -9n "$share"/man/man1/*

doc=$share/doc/corun
install -D -m 644 "$packaging/debian/copyright" "$doc/copyright"
gzip -9nc "$root/CHANGELOG.md" >"$doc/NEWS.md.gz"
gzip -9nc >"$doc/changelog.gz" <<END
corun ($version) unstable; urgency=medium

  * All changes are in NEWS.md.gz.

 -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END

# The libraries that the programs need, by dpkg's own tables.
mkdir -p "$work/debian"
printf 'Source: corun\n\nPackage: corun\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info tree/usr/bin/corun \
    tree/usr/lib/corun/libcorun_trace.so 2>/dev/null | sed -n 's/^shlibs:Depends=//p')

cat >"$tree/DEBIAN/control" <<END
Package: corun
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -k --apparent-size -s "$tree/usr" | cut -f1)
Depends: ${depends:-libc6, libgcc-s1}, init-system-helpers (>= 1.54~), systemd | systemd-standalone-sysusers | systemd-sysusers
Recommends: qemu-user
Section: admin
Priority: optional
Description: decides which programs run beside each other
 Programs that share a last-level cache, a memory controller or an
 interconnect slow each other down. corun measures programs, predicts what
 any group of them does to each other, compares scheduling policies with the
 best possible placement, says why a running program is slow, and runs
 policies on this machine, undoing every change when it ends.
 .
 The daemon changes nothing until its configuration says so.
END
echo /etc/corun/config.toml >"$tree/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$packaging/debian/$script" "$tree/DEBIAN/$script"
done
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)

mkdir -p "$out"
package=$out/corun_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"$compression" --build "$tree" "$package" >/dev/null
echo "$package"
