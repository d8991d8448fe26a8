"""Settings of the documentation site, which Sphinx builds from the Markdown files of the repository: `make docs`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE)]

from kcp_py import __version__  # noqa: E402 - the path of the repository comes first

project = "kcp-py"
author = "the authors of kcp-py"
copyright = author  # noqa: A001 - the name that Sphinx reads
version = release = __version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "command_line",
    "public_api",
]

# The sources are the files as the repository has them: the root is the source directory, so that their links lead to each other.
root_doc = "docs/index"
include_patterns = ["docs/*.md", "docs/**/*.md", "README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
exclude_patterns = [".*", "kcp_py", "tests", "e2e", "hack", "config", "sdk"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
# Fields of two classes may have the same name.
suppress_warnings = ["myst.header", "ref.python"]

# Docstrings are written with Markdown's single backquotes for code.
default_role = "code"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
add_module_names = False
python_use_unqualified_type_names = True
nitpicky = False

html_theme = "furo"
html_title = f"kcp-py {__version__}"
html_static_path: list[str] = []
# The page of the root directory of the site leads to the first page.
html_extra_path = ["root"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True
