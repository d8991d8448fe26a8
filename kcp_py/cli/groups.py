"""Groups of commands: one text for an unknown word, and commands that are imported when they are called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

from kcp_py.cli.manual import Documented


class CommandGroup(Documented, click.Group):
    """A group that reports unknown commands with the list of its commands."""

    command_class = Documented

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        word = click.utils.make_str(args[0])
        names = self.list_commands(ctx)
        if word not in names and not word.startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(unknown_command(f"{ctx.command_path} {word}".partition(" ")[2], word, names), ctx)
        return super().resolve_command(ctx, args)


class LazyGroup(CommandGroup):
    """A group that knows its commands by name and imports one when it is asked for."""

    locations: Mapping[str, tuple[str, str]] = {}
    """Name -> where the command is (`module:attribute`), and its line in the help, so that help needs no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(self.locations)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in self.locations:
            return None
        module, _, attribute = self.locations[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.locations.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        found = [CompletionItem(name, help=line) for name, (_, line) in self.locations.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def unknown_command(path: str, word: str, names: list[str]) -> str:
    """The text about a command that is not there.

    Args:
        path: the words up to the unknown one, without the program.
        word: the unknown one.
        names: the commands that there are.
    """
    nearest = difflib.get_close_matches(word, names, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return f"no such command: {path}; there are {', '.join(names)}{hint}"


def unknown_option(error: click.NoSuchOption) -> str:
    """The text about an option that is not there."""
    hint = f"; did you mean {' or '.join(sorted(error.possibilities))}?" if error.possibilities else ""
    command = error.ctx.command_path if error.ctx is not None else "kcp-py"
    return f"{command}: No such option: {error.option_name}{hint}"
