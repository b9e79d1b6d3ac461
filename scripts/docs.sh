#!/bin/bash
# Usage: docs.sh BUILD : the HTML pages and the guides' man pages, into BUILD/docs, from api.json, docs/, examples/ and the command's
# man pages. A warning of Sphinx's, or a link that leads nowhere, is an error.
set -euo pipefail
build=$1/docs
tools=$(dirname "$0")/../tools/reference
# Debian's Python has Debian's Sphinx, whatever `python3` is on the path.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3

mkdir -p "$build"
"$python" -B "$tools/sphinx_source.py" "$1/gen/api.json" "$(dirname "$0")/.." "$build/source"
# All pages are read again, since a page that stands as it was may link to a place that has moved.
rm -rf "$build/html" "$build/doctrees"
for format in html man; do
    "$python" -m sphinx -b $format -W --keep-going -q -j auto -d "$build/doctrees" "$build/source" "$build/$format"
done
lexgrog "$build"/man/*.7 >/dev/null # says which page has no name that an index of pages could show
"$python" -B "$tools/inventory.py" "$1/gen/man" "$build/html"
"$python" -B "$tools/links.py" "$build/html"
echo "$build/html/index.html: $(find "$build/html" -name '*.html' | wc -l) pages; $build/man: $(find "$build/man" -name '*.7' | wc -l) guides"
