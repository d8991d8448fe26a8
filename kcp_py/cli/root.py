"""The command `kcp-py`: a group whose commands are imported when they are called."""

from __future__ import annotations

import importlib
from typing import Any, Final

import click

from kcp_py import __version__

COMMANDS: Final = {
    "start": ("kcp_py.cli.start:start", "Run the server: API, controllers and, unless told otherwise, an embedded store."),
    "cluster": ("kcp_py.cli.cluster:cluster", "Create, list and delete the logical clusters of a running server."),
    "builtin": ("kcp_py.cli.builtin:builtin", "Install kinds of Kubernetes, such as pods and deployments, in a logical cluster."),
    "doctor": ("kcp_py.cli.doctor:doctor", "Check files, certificates, the store, the port and the libraries."),
    "version": ("kcp_py.cli.version:version", "Print the version."),
}
"""By name: where the command is, and its line in `kcp-py --help`, so that help needs no import."""

EPILOG: Final = """\b
Examples:
  kcp-py start                                        run a server in this directory
  export KUBECONFIG=$PWD/.kcp/admin.kubeconfig        use it
  kcp-py cluster create team-a                        make a logical cluster
  kcp-py cluster kubeconfig team-a -o team-a.kubeconfig
  kubectl --kubeconfig team-a.kubeconfig get namespaces
"""


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = click.utils.make_str(args[0])
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"no such command: {name}; there are {', '.join(COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, "--version", message="kcp-py %(version)s")
def cli() -> None:
    """A Kubernetes-compatible control plane that serves very many logical clusters from one process."""


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code. Errors are one line on stderr, without the usage text around it."""
    try:
        result: Any = cli.main(args=arguments, prog_name="kcp-py", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        click.echo(f"error: {error.format_message().rstrip('.')}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    return result if isinstance(result, int) else 0
