"""Sphinx's settings. sphinx_source.py copies this file beside the pages."""
import itertools
import pathlib
import re

from docutils import nodes
from sphinx.domains.c import CDomain
from sphinx.util.nodes import make_refnode

project = "Facula"
author = "the Facula contributors"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Facula"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_show_sphinx = False
highlight_language = "none"
primary_domain = "c"
add_function_parentheses = False
toc_object_entries = False
myst_heading_anchors = 3
exclude_patterns = ["guides.txt"]

# `man facula-threads`: every guide in section 7, with what the folder says of it.
guides = dict(line.split("\t") for line in (pathlib.Path(__file__).parent / "guides.txt").read_text().splitlines())
man_pages = [(f"docs/{name}", f"facula-{name}", title, "", 7) for name, title in guides.items()]


class Names(CDomain):
    """The domain of C, made faster: a name is looked up in the table of all names first, and compared with each only if it is not there."""

    def resolve_xref(self, env, fromdocname, builder, typ, target, node, contnode):
        if target not in self.data["objects"]:
            return super().resolve_xref(env, fromdocname, builder, typ, target, node, contnode)
        page, place, _ = self.data["objects"][target]
        return make_refnode(builder, fromdocname, page, place, contnode, target)


def describe(app, tree, name):
    """Puts what a guide begins with under a heading: `man` and its index take all that stands under NAME for the page's name."""
    if app.builder.name != "man":
        return
    page = next(iter(tree.findall(nodes.section)))
    opening = list(itertools.takewhile(lambda node: not isinstance(node, nodes.section), page.children[1:]))
    page.children[1:1 + len(opening)] = [nodes.section("", nodes.title(text="Description"), *opening, ids=["description"])]


def mend_tables(app, failure):
    """Columns are narrow: their lines are not stretched, and may end within a long name or call."""
    if app.builder.name != "man" or failure:
        return
    for path in pathlib.Path(app.outdir).glob("*.7"):
        tables = re.split(r"(^\.TS$.*?^\.TE$)", path.read_text(), flags=re.M | re.S)
        for i in range(1, len(tables), 2):
            breakable = re.sub(r"(?<!\\)(?<=\w)([_(,/=.])(?=\w)", r"\1\\:", tables[i])
            tables[i] = re.sub(r"T\{$", "T{\n.na", breakable, flags=re.M)
        path.write_text("".join(tables))


def setup(app):
    app.add_domain(Names, override=True)
    app.connect("doctree-resolved", describe)
    app.connect("build-finished", mend_tables)
