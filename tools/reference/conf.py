"""Sphinx's settings. sphinx_source.py copies this file beside the pages."""
import pathlib

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

# `man facula-threads`: every guide in section 7.
guides = (pathlib.Path(__file__).parent / "guides.txt").read_text().split()
man_pages = [(f"docs/{g}", f"facula-{g}", f"Facula: {g.replace('-', ' ')}", "", 7) for g in guides]
