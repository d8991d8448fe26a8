"""`Manual`: the parts of the help of a command that are not its options, and `Command`, which shows them.

The sections and their order are those of man pages: synopsis, description, options, exit status, environment, files, examples, see also.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import click

Rows = tuple[tuple[str, str], ...]
"""Terms with their descriptions."""

USUAL_EXITS: Final = ("done", "failed, with one line that says why", "wrong arguments")
SERVER_EXITS: Final = ("done", "the server refused or cannot be reached", "wrong arguments")
SERVING_EXITS: Final = ("stopped in order", "it could not start or had to stop, with one line that says why", "a setting is wrong")

KUBECONFIG: Final = ("KUBECONFIG", "Kubeconfigs, separated by colons, where --kubeconfig is not given.")
ADMIN_KUBECONFIG: Final = (".kcp/admin.kubeconfig", "Used where neither --kubeconfig nor KUBECONFIG is given; kcp-py start writes it.")
SETTINGS_VARIABLES: Final = ("KCP_PY_…", "Each setting: --log-level is KCP_PY_LOG_LEVEL. Flags take precedence.")
EVERYWHERE: Final = (("NO_COLOR", "Any text: no colours on a terminal."),)
ROOT_FILES: Final = (
    (".kcp", "The root directory (--root-directory)."),
    (".kcp/pki/", "Certificates and keys, with those of the authority of the server."),
    (".kcp/admin.kubeconfig", "Kubeconfig of the administrator."),
    (".kcp/admin-tokens.csv", "Token of the administrator."),
    (".kcp/kcp.db", "The sqlite store."),
)


class Section(NamedTuple):
    """A section with one of three contents."""

    heading: str
    rows: Rows = ()
    lines: Sequence[str] = ()
    """Shown as they are."""
    names: Sequence[str] = ()
    """Other commands."""


class Manual(NamedTuple):
    """What the help of a command has besides its options.

    Attributes:
        examples: lines of a shell.
        exits: the meanings of the exit codes 0, 1 and 2.
        environment: variables.
        files: paths.
        see_also: other commands, without the name of the program.
        notes: a paragraph that follows the description.
    """

    examples: Sequence[str]
    exits: Sequence[str] = USUAL_EXITS
    environment: Rows = ()
    files: Rows = ()
    see_also: Sequence[str] = ()
    notes: str = ""

    def sections(self, program: str) -> list[Section]:
        """The sections below the options that have a content.

        Args:
            program: the first word of `see_also`.
        """
        return [
            Section("Exit status", tuple((str(code), text) for code, text in enumerate(self.exits))),
            Section("Environment", (*self.environment, *EVERYWHERE)),
            *([Section("Files", self.files)] if self.files else ()),
            Section("Examples", lines=self.examples),
            *([Section("See also", names=[f"{program} {name}" for name in self.see_also])] if self.see_also else ()),
        ]


def of_server(*examples: str, see_also: Sequence[str] = (), notes: str = "", exits: Sequence[str] = SERVER_EXITS) -> Manual:
    """The manual of a command that uses a running server."""
    return Manual(examples, exits, (KUBECONFIG,), (ADMIN_KUBECONFIG,), see_also, notes)


def of_settings(*examples: str, see_also: Sequence[str] = (), notes: str = "", exits: Sequence[str] = SERVING_EXITS) -> Manual:
    """The manual of a command that takes the settings of a server."""
    return Manual(examples, exits, (SETTINGS_VARIABLES,), ROOT_FILES, see_also, notes)


class Documented(click.Command):
    """A command with a manual."""

    def __init__(self, *arguments: Any, manual: Manual | None = None, **given: Any) -> None:
        """As click's, and with a manual."""
        super().__init__(*arguments, **given)
        self.manual = manual

    def option_sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Options with their descriptions, by heading."""
        records = [record for parameter in self.get_params(ctx) if (record := parameter.get_help_record(ctx)) is not None]
        return {"Options": records}

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        if self.manual is not None and self.manual.notes:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(self.manual.notes)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section in () if self.manual is None else self.manual.sections(ctx.command_path.partition(" ")[0]):
            with formatter.section(section.heading):
                if section.rows:
                    formatter.write_dl(list(section.rows))
                elif section.lines:
                    formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in section.lines))
                else:
                    formatter.write_text(", ".join(section.names))
        super().format_epilog(ctx, formatter)
