"""Control planes of programs as servers: `kcp-py start --app`, and commands of a program's own."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kcp_py.cli.arguments import SettingsCommand, options_from, setting_flags
from kcp_py.cli.exits import CommandError
from kcp_py.cli.programs import load_program
from kcp_py.options import SETTINGS, Options
from kcp_py.telemetry.programcode import failed_function

if TYPE_CHECKING:
    from kcp_py.controlplane import ControlPlane


class Application:
    """What makes the control plane of a server.

    Attributes:
        base: the settings that those of the command line replace; None where the application takes all of them as they are.
    """

    def __init__(self, made: Any, name: str) -> None:
        """Take a control plane, or a function that makes one.

        Args:
            made: a `ControlPlane` that is not entered; or a function that takes `Options` and returns one, returns an asynchronous context
                manager of one, or waits for either.
            name: for messages.

        Raises:
            CommandError: it is something else.
        """
        from kcp_py.controlplane import ControlPlane

        self._made = made
        self._name = name
        self.base: Options | None = made.options if isinstance(made, ControlPlane) else None
        if not isinstance(made, ControlPlane) and (not callable(made) or inspect.isclass(made)):
            kind = "a class" if inspect.isclass(made) else f"of the type {type(made).__name__}"
            raise CommandError(f"{name} is {kind}, and neither a ControlPlane nor a function that takes Options and returns one")

    @classmethod
    def load(cls, target: str) -> Application:
        """That of an argument such as `module:object`.

        Raises:
            CommandError: there is none.
        """
        if ":" not in target:
            raise CommandError(f"--app {target}: expected MODULE:OBJECT or FILE.py:OBJECT")
        return cls(load_program(target), target)

    @contextlib.asynccontextmanager
    async def entered(self, options: Options) -> AsyncIterator[ControlPlane]:
        """The control plane with these settings, entered.

        Raises:
            CommandError: the application makes something else.
        """
        from kcp_py.controlplane import ControlPlane

        made = self._made
        if isinstance(made, ControlPlane):
            made.configure(options)
        else:
            made = made(options)
            if inspect.isawaitable(made):
                made = await made
        async with contextlib.AsyncExitStack() as stack:
            if not isinstance(made, ControlPlane):
                if not hasattr(made, "__aenter__"):
                    raise CommandError(f"{self._name} returned {type(made).__name__} instead of a ControlPlane")
                made = await stack.enter_async_context(made)
                if not isinstance(made, ControlPlane):
                    raise CommandError(f"the context of {self._name} gives {type(made).__name__} instead of a ControlPlane")
            yield made if made.is_entered else await stack.enter_async_context(made)

    def failure(self, error: Exception) -> CommandError:
        """The error of an application that fails while it starts. The traceback of a function of the program is printed."""
        if failed_function(error):
            traceback.print_exception(error)
        return CommandError(f"{self._name}: {error}" if isinstance(error, ValueError) else f"{self._name}: {type(error).__name__}: {error}")


def server_command(name: str | None = None, **attributes: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command that serves a control plane like `kcp-py start`, with the settings and with options of its own.

    The decorated function takes `Options` first, and then the values of its own options and arguments, which click's decorators declare
    below this one. It returns what a function of `kcp-py start --app` returns.

    Args:
        name: of the command; by default that of the function.
        attributes: of `click.command`, such as `epilog`.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        settings = {setting.name for setting in SETTINGS}
        own = {parameter.name for parameter in getattr(function, "__click_params__", ())}
        if taken := sorted(str(one) for one in own & {*settings, "config_file"}):
            raise ValueError(f"the names of these options belong to settings: {', '.join(taken)}")

        @functools.wraps(function)
        def command(config_file: str | None, **given: Any) -> None:
            texts = {name: given.pop(name) for name in settings}
            options = options_from(texts, config_file=config_file)
            code = serve_application(options, Application(functools.partial(function, **given), command.__qualname__))
            click.get_current_context().exit(code)

        made: click.Command = click.command(name, cls=SettingsCommand, **attributes)(setting_flags()(command))
        return made

    return decorate


def serve_application(options: Options, application: Application | None = None) -> int:
    """Serve until a signal; return the exit code.

    Raises:
        UsageError: a setting names what does not exist.
        CommandError: with one line, where the server cannot start or had to give up.
    """
    import dataclasses

    from kcp_py.cli.process import run_server

    options = dataclasses.replace(options, root_directory=Path(options.root_directory).absolute())
    return run_server(options, out=sys.stdout, application=application)
