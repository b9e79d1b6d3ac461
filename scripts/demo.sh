#!/bin/sh
# Trains a small GPT on the text of apps/demo, for less than a minute, and lets it write.
# usage: scripts/demo.sh BUILD RUN [OPTION of facula train...]; without options it trains for 50 seconds
set -eu
cd "$(dirname "$0")/.."
facula=$1/bin/facula
text=$1/demo-text
run=$2
shift 2
[ $# -gt 0 ] || set -- --seconds 50 --sample-every 100

sha256() { if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi; }
say() { printf '\n$ %s\n' "$*"; }

(cd apps/demo && sha256 -c text.tar.gz.sha256 >/dev/null 2>&1) || {
    echo "demo: apps/demo/text.tar.gz is not what text.tar.gz.sha256 says; git checkout apps/demo brings it back" >&2
    exit 1
}
rm -rf "$text"
mkdir -p "$text"
gzip -dc apps/demo/text.tar.gz | tar -xf - -C "$text"

say "$facula train --out $run $* $text"
"$facula" train --out "$run" "$@" "$text"
say "$facula generate --prompt 'fac_tensor *' $run"
"$facula" generate --tokens 200 --prompt 'fac_tensor *' "$run"
printf '\nthe loss curve: %s\n' "$run/loss.svg"
