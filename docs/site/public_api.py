"""A Sphinx extension: the directive `public-api`, which documents each name that a module exports, from its docstring."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class PublicAPI(SphinxDirective):
    """`.. public-api:: MODULE`: an entry for each name in its `__all__`, in alphabetical order."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        module = import_module(self.arguments[0])
        lines: list[str] = []
        for name in sorted(module.__all__, key=str.lower):
            lines += [*_entry(self.arguments[0], name, getattr(module, name)), ""]
        node = nodes.section()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, source=self.arguments[0]), self.content_offset, node)
        return node.children


def _entry(module: str, name: str, value: Any) -> list[str]:
    if name.startswith("_"):
        return []
    if isinstance(value, ModuleType):
        return [f".. automodule:: {value.__name__}"]
    if inspect.isclass(value):
        return [f".. autoclass:: {module}.{name}", *(["   :no-show-inheritance:"] if value.__bases__ == (object,) else [])]
    if callable(value) and hasattr(value, "__code__"):
        return [f".. autofunction:: {module}.{name}"]
    return [f".. autodata:: {module}.{name}", "   :no-value:"]


def _drop_generated(*arguments: Any) -> None:
    """Fields of a NamedTuple without a docstring have one that says nothing."""
    lines = arguments[-1]
    if lines and lines[0].startswith("Alias for field number "):
        lines.clear()


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.connect("autodoc-process-docstring", _drop_generated)
    app.add_directive("public-api", PublicAPI)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
