"""Flags made from the table of settings, and `Options` made from flags, environment and file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any, Final, TypeVar

import click

from kcp_py.cli.completion import completer
from kcp_py.cli.exits import UsageError
from kcp_py.cli.manual import Documented
from kcp_py.options import SETTINGS, Options, OptionsError, Setting, load_options, unknown_environment_variables
from kcp_py.options.kinds import BOOLEAN

_Command = TypeVar("_Command", bound=Callable[..., Any])

CONFIG_FILE: Final = "Every setting is also a key of the --config file: --log-level is logLevel."


class SettingsCommand(Documented):
    """A command whose `--help` lists the settings under their headings."""

    def option_sections(self, ctx: click.Context) -> dict[str, list[tuple[str, str]]]:
        sections: dict[str, list[tuple[str, str]]] = {}
        by_name = {setting.name: setting for setting in SETTINGS}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                setting = by_name.get(parameter.name or "")
                sections.setdefault(setting.section if setting else "General", []).append(record)
        return sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, records in self.option_sections(ctx).items():
            with formatter.section(section):
                formatter.write_dl(records)


def setting_flags(*, only: Collection[str] | None = None) -> Callable[[_Command], _Command]:
    """A decorator that gives a command `--config` and a flag for each setting (or for those named).

    The command's function gets `config_file` and one keyword per setting: its text, or None. `options_from` makes `Options` of them.
    """

    def decorate(command: _Command) -> _Command:
        for setting in reversed(SETTINGS):
            if only is None or setting.name in only:
                command = _flag(setting)(command)
        return click.option(
            "--config",
            "config_file",
            type=click.Path(),
            metavar="FILE",
            help="YAML file of kind ServerConfiguration with any of the settings.",
        )(command)

    return decorate


def options_from(given: dict[str, str | None], *, config_file: str | None, base: Options | None = None) -> Options:
    """Parse and check the settings. Those that are not given are those of `base`.

    Raises:
        UsageError: values are wrong; each line says where one came from.
    """
    try:
        options = load_options(
            flags={name: text for name, text in given.items() if text is not None},
            environ=os.environ,
            config_file=config_file,
            base=base,
        )
    except OptionsError as error:
        raise UsageError(*error.problems) from None
    if options.builtin_kinds:
        from kcp_py.bootstrap.upstream_names import UnknownKindError, find_kinds

        try:
            find_kinds(options.builtin_kinds)
        except UnknownKindError as error:
            raise UsageError(f"builtin kinds: {error}") from None
    for line in unknown_environment_variables(os.environ):
        click.echo(f"warning: {line}", err=True)
    return options


def _flag(setting: Setting) -> Callable[[_Command], _Command]:
    extra: dict[str, Any] = {}
    if setting.kind is BOOLEAN:
        # As Go's flags: --anonymous-auth, --anonymous-auth=false.
        extra = {"is_flag": False, "flag_value": "true"}
    text = setting.help
    if setting.default_text:
        text = f"{text}  [{setting.default_text}]"
    if (complete := completer(setting)) is not None:
        extra["shell_complete"] = complete
    return click.option(setting.flag, setting.name, metavar=setting.kind.metavar, help=text, hidden=setting.hidden, default=None, **extra)
