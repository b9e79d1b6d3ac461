#!/usr/bin/env python3
"""Every link of the HTML pages that leads into the site finds its file, and the place in it: links.py DIR

Links to the world outside are left alone. Reads files as they are, so that it works in a folder that only its owner may read.
"""
import html.parser
import pathlib
import sys
import urllib.parse

LINKS = {("a", "href"), ("link", "href"), ("img", "src"), ("script", "src"), ("form", "action"), ("iframe", "src")}


class Page(html.parser.HTMLParser):
    """The places in a page that a link may name, and its own links."""

    def __init__(self, path):
        super().__init__()
        self.places, self.links = {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)
            elif (tag, name) in LINKS and value:
                self.links.append(value)


def broken(link, path, pages):
    """What is wrong with a link of the page at `path`; "" if nothing is, or it leads outside."""
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "there is no such file"
    place = urllib.parse.unquote(parts.fragment)
    return "the page has no such place" if target in pages and place not in pages[target].places else ""


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in root.rglob("*.html")}
    links = [(path, link) for path, page in pages.items() for link in page.links]
    found = [(path, link, wrong) for path, link in links if (wrong := broken(link, path, pages))]
    for path, link, wrong in found:
        print(f"{path.relative_to(root)}: {link}: {wrong}")
    print(f"{len(links)} links in {len(pages)} pages, {len(found)} broken")
    return 1 if found or not links else 0


if __name__ == "__main__":
    sys.exit(main())
