#!/usr/bin/env bash
# Writes the manual pages and the completions of bash, zsh and fish where manuals and shells look for them:
# `scripts/install-documentation.sh CORUN SHARE`. CORUN is the program that prints them, SHARE a folder as /usr/share.
set -euo pipefail

corun=${1:?usage: scripts/install-documentation.sh CORUN SHARE}
share=${2:?usage: scripts/install-documentation.sh CORUN SHARE}

umask 022
"$corun" man "$share/man/man1"
bash=$share/bash-completion/completions/corun
zsh=$share/zsh/site-functions/_corun
fish=$share/fish/vendor_completions.d/corun.fish
for shell in bash zsh fish; do
    mkdir -p "$(dirname "${!shell}")"
    "$corun" completions "$shell" >"${!shell}"
done
