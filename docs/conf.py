"""Sphinx's configuration of these pages; ``.ci/run`` builds them with every warning as an error."""

import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE))

import harness  # noqa: E402 - found by the path above

project = "torch-harness"
author = "the torch-harness authors"
release = version = harness.__version__

extensions = ["sphinx.ext.autodoc"]
exclude_patterns = ["_build", "requirements.txt"]
highlight_language = "none"
smartquotes = False  # "--shard" is no dash and a word

html_theme = "furo"
html_title = f"torch-harness {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# Nothing of a page comes from another site.
html_show_sourcelink = False
html_copy_source = False
html_show_copyright = False  # without a holder it is a sign and nothing behind it

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
