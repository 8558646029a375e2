#!/usr/bin/env bash
# Writes the manual pages and the completions of bash, zsh and fish where manuals and shells look for them, and README with
# the documents that it leads to: `scripts/install-documentation.sh CORUN SHARE`. CORUN is the program that prints them,
# SHARE a folder as /usr/share.
set -euo pipefail

corun=${1:?usage: scripts/install-documentation.sh CORUN SHARE}
share=${2:?usage: scripts/install-documentation.sh CORUN SHARE}
root=$(cd "$(dirname "$0")/.." && pwd)

umask 022
"$corun" man "$share/man/man1"
bash=$share/bash-completion/completions/corun
zsh=$share/zsh/site-functions/_corun
fish=$share/fish/vendor_completions.d/corun.fish
for shell in bash zsh fish; do
    mkdir -p "$(dirname "${!shell}")"
    "$corun" completions "$shell" >"${!shell}"
done
doc=$share/doc/corun
install -D -m 644 -t "$doc" "$root/README.md"
(cd "$root" && find docs -type f \( -name '*.md' -o -name '*.png' -o -name '*.svg' -o -name '*.ipynb' \) -print0) |
    while IFS= read -r -d '' file; do install -D -m 644 "$root/$file" "$doc/$file"; done
