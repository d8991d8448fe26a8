"""`kcp-py man`: the help of all commands as man pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kcp_py import __version__
from kcp_py.cli.exits import CommandError
from kcp_py.cli.manual import Documented, Manual, Rows

SECTION: Final = "1"
_FLAG: Final = re.compile(r"(?<![\w-])(-{1,2}[A-Za-z][\w-]*)")


@click.command(
    cls=Documented,
    manual=Manual(
        (
            "kcp-py man ~/.local/share/man",
            "man kcp-py-cluster-create",
            "sudo kcp-py man /usr/local/share/man",
        ),
        files=(("DIRECTORY/man1/kcp-py*.1", "A page for each command."),),
        see_also=("completion",),
    ),
)
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
def man(directory: Path) -> None:
    """Write the man pages of all commands into DIRECTORY/man1.

    man finds them in ~/.local/share/man where ~/.local/bin is in PATH, and in share/man of an environment of Python whose bin is in PATH.
    """
    from kcp_py.cli.root import PROGRAM, cli

    target = directory / f"man{SECTION}"
    try:
        target.mkdir(parents=True, exist_ok=True)
        count = 0
        for context in commands(click.Context(cli, info_name=PROGRAM, **cli.context_settings)):
            (target / f"{page_name(context.command_path)}.{SECTION}").write_text(man_page(context), "utf-8")
            count += 1
    except OSError as error:
        raise CommandError(f"{error.filename or target}: {error.strerror or error}") from None
    click.echo(f"{count} man pages written to {target}")


def commands(context: click.Context) -> Iterator[click.Context]:
    """The context of a command, and those of all commands below it."""
    yield context
    command = context.command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if (child := command.get_command(context, name)) is not None and not child.hidden:
                yield from commands(click.Context(child, info_name=name, parent=context))


def page_name(command_path: str) -> str:
    """As those of git: `kcp-py-cluster-create`."""
    return command_path.replace(" ", "-")


def man_page(context: click.Context) -> str:
    """The page of a command, in the macros of man(7)."""
    command, path = context.command, context.command_path
    name = page_name(path)
    lines = [
        f'.TH "{escaped(name).upper()}" "{SECTION}" "" "kcp-py {escaped(__version__)}" "kcp-py"',
        ".nh",
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(_purpose(command))}",
        ".SH SYNOPSIS",
        f".B {escaped(path)}",
        escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(inspect.cleandoc(command.help or "")),
    ]
    manual = command.manual if isinstance(command, Documented) else None
    if manual is not None and manual.notes:
        lines += [".PP", escaped(manual.notes)]
    if isinstance(command, click.Group):
        children = ((child, command.get_command(context, child)) for child in command.list_commands(context))
        rows = tuple((f"{path} {child}", _purpose(found)) for child, found in children if found is not None and not found.hidden)
        lines += [".SH COMMANDS", *_terms(rows)]
    lines += _options(command, context)
    for section in () if manual is None else manual.sections(path.partition(" ")[0]):
        lines += [f".SH {section.heading.upper()}", *_terms(section.rows)]
        if section.lines:
            lines += [".nf", *map(escaped, section.lines), ".fi"]
        if section.names:
            lines.append(", ".join(f"\\fB{escaped(page_name(one))}\\fR({SECTION})" for one in section.names))
    return "\n".join(lines) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    sections = command.option_sections(context) if isinstance(command, Documented) else {}
    yield ".SH OPTIONS"
    for heading, rows in sections.items():
        if len(sections) > 1:
            yield f".SS {escaped(heading)}"
        yield from _terms(tuple(rows))


def _purpose(command: click.Command) -> str:
    """The first sentence of the help, without its full stop."""
    return inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        yield escaped(" ".join(paragraph.split()))


def _terms(rows: Rows) -> Iterator[str]:
    """Terms with descriptions; flags in a term are bold."""
    for term, text in rows:
        yield ".TP"
        yield (
            _FLAG.sub(lambda found: f"\\fB{found[1]}\\fR", escaped(term, dashes=False)).replace("-", "\\-")
            if "-" in term
            else escaped(term)
        )
        yield escaped(text)


def escaped(text: str, *, dashes: bool = True) -> str:
    """Text that the macros leave as it is: on one line, without commands, of ASCII."""
    text = text.replace("\\", "\\e").replace("\n", " ")
    if dashes:
        text = text.replace("-", "\\-")
    text = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in text)
    return f"\\&{text}" if text.startswith((".", "'")) else text
