"""A Sphinx extension: the directive `command-line`, which shows the help of a command and of all its subcommands."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class CommandLine(SphinxDirective):
    """`.. command-line:: MODULE:OBJECT NAME`: a section for each command, with what `--help` prints."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        module, _, name = self.arguments[0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return list(_sections(command, click.Context(command, info_name=self.arguments[1], **command.context_settings)))


def _sections(command: click.Command, context: click.Context) -> Any:
    title = context.command_path
    section = nodes.section(ids=[nodes.make_id(title)], names=[title])
    section += nodes.title(text=title)
    section += nodes.literal_block(text=command.get_help(context), language="text")
    yield section
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _sections(child, click.Context(child, info_name=name, parent=context))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("command-line", CommandLine)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
