#!/usr/bin/env python3
"""Every link of the HTML pages to a place in a page of the site finds that place: anchors.py DIR"""
import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.places, self.links = {""}, []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)
            elif tag == "a" and name == "href" and value and not urllib.parse.urlsplit(value).scheme:
                self.links.append(value)


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in root.rglob("*.html")}
    broken = links = 0
    for path, page in pages.items():
        for link in page.links:
            links += 1
            file, _, place = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            if target in pages and urllib.parse.unquote(place) not in pages[target].places:
                print(f"{path.relative_to(root)}: {link} is no place")
                broken += 1
    print(f"{links} links in {len(pages)} pages, {broken} to places that are not there")
    return 1 if broken or not links else 0


if __name__ == "__main__":
    sys.exit(main())
