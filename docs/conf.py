"""How Sphinx makes the site of these pages: ``sphinx-build -W --keep-going docs build/docs``."""

import candle

project = "candle"
author = "the candle contributors"
version = release = candle.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"candle {version}"
html_copy_source = False
html_show_sphinx = False
source_suffix = {".md": "markdown"}
exclude_patterns = ["charts"]

nitpicky = True  # a name that is referred to and does not exist is an error
nitpick_ignore_regex = [("py:class", ".*")]  # words of a docstring in the place of a type
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the text of a docstring says what each argument may be
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_param = False
napoleon_use_ivar = True
default_role = "code"  # as the docstrings and their readers in a terminal have it
