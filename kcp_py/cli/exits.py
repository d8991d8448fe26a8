"""How commands end: `CommandError` for one clear line and exit code 1, `UsageError` for exit code 2."""

from __future__ import annotations

from typing import IO, Any

import click

from kcp_py.cli.printing import printable


class CommandError(click.ClickException):
    """The command cannot do what it was asked. The message is one line without a full stop."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {printable(' '.join(self.message.split()))}", file=file, err=file is None)


class UsageError(CommandError):
    """What the operator wrote is wrong. Each message is one line that begins with where it was written."""

    exit_code = 2

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages

    def show(self, file: IO[Any] | None = None) -> None:
        for message in self.messages:
            click.echo(f"error: {printable(' '.join(message.split()))}", file=file, err=file is None)
