#!/bin/sh
# Usage: format.sh [--check] : formats the tracked C sources in place, or lists those that are not formatted.
set -eu
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "clang-format was not found: install clang-format (Debian, Ubuntu)"; exit 1; }
files=$(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.hpp' '*.cu')
[ -n "$files" ] || exit 0
if [ "${1:-}" = --check ]; then
    # shellcheck disable=SC2086 # no file name has a space
    clang-format --dry-run --Werror --ferror-limit=1 $files
else
    # shellcheck disable=SC2086
    clang-format -i $files
fi
