#!/usr/bin/env python3
"""Checks that a wheel keeps what its name promises: `scripts/check-wheel.py WHEEL VERSION`.

The name says for which Python, by which interface and from which glibc on it works (PEP 425, PEP 600). Checked are the
version, the stable interface (abi3), the libraries that the native module asks for, which must be those that every
Linux of the tag has, and the symbol versions of glibc that it asks for. Needs binutils (objdump).
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

# The libraries that PEP 600 leaves to the system and a Rust library asks for.
OF_THE_SYSTEM = {
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
NAME = re.compile(
    r"corun-(?P<version>[^-]+)-(?P<python>cp3\d+)-(?P<abi>[^-]+)-manylinux_2_(?P<minor>\d+)_\w+?"
    r"(\.manylinux\w+)?\.whl"
)


def dynamic(path: Path) -> str:
    return subprocess.run(["objdump", "-p", path], check=True, capture_output=True, text=True).stdout


def mistakes(wheel: Path, version: str) -> list[str]:
    """What is wrong with it, in words; nothing where all is well."""
    name = NAME.fullmatch(wheel.name)
    if name is None:
        return [f"{wheel.name}: expected corun-VERSION-cp3..-abi3-manylinux_2_.._ARCHITECTURE.whl"]
    found = []
    if name["version"] != version:
        found.append(f"its version is {name['version']}, that of Cargo.toml is {version}")
    if name["abi"] != "abi3":
        found.append(f"it is for one Python alone: {name['abi']}, expected abi3")
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        native = [one for one in archive.namelist() if ".so" in Path(one).name]
        if not any(one.endswith(".abi3.so") for one in native):
            found.append(f"no native module of the stable interface is in it, but {native}")
        for one in native:
            text = dynamic(Path(archive.extract(one, folder)))
            needed = set(re.findall(r"NEEDED\s+(\S+)", text))
            if alien := sorted(needed - OF_THE_SYSTEM):
                found.append(f"{one} needs libraries that not every Linux has: {', '.join(alien)}")
            minors = [int(minor) for minor in re.findall(r"\bGLIBC_2\.(\d+)", text)]
            if minors and max(minors) > int(name["minor"]):
                found.append(f"{one} needs glibc 2.{max(minors)}, its name promises 2.{name['minor']}")
    return found


def main() -> int:
    wheel, version = Path(sys.argv[1]), sys.argv[2]
    found = mistakes(wheel, version)
    for one in found:
        print(f"{wheel.name}: {one}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
