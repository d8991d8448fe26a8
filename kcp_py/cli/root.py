"""The command `kcp-py`: a group whose commands are imported when they are called."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import Any, Final

import click

from kcp_py import __version__
from kcp_py.cli.groups import LazyGroup, unknown_option
from kcp_py.cli.manual import KUBECONFIG, ROOT_FILES, SETTINGS_VARIABLES, Manual
from kcp_py.cli.outputs import prepare_outputs

COMMANDS: Final = {
    "start": ("kcp_py.cli.start:start", "Run the server: API, controllers and, unless told otherwise, an embedded store."),
    "aggregated": ("kcp_py.cli.aggregated:aggregated", "Run a program as an aggregated API server behind kube-apiserver."),
    "test-server": ("kcp_py.cli.testserver:test_server", "Run a server for tests, which keeps nothing and ends with its parent."),
    "controllers": ("kcp_py.cli.controllers:controllers", "Run the controllers of a server in a process of their own."),
    "cluster": ("kcp_py.cli.cluster:cluster", "Create, show, change and delete the logical clusters of a running server."),
    "builtin": ("kcp_py.cli.builtin:builtin", "Install kinds of Kubernetes, such as pods and deployments, in a logical cluster."),
    "validate": ("kcp_py.cli.validate:validate", "Check manifests and CRDs as a server checks them, without a server."),
    "proxy": ("kcp_py.cli.proxy:proxy", "Serve reads and watches of many clients from one cache of an API server."),
    "generate": ("kcp_py.cli.generate:generate", "Write CRDs and other files from programs."),
    "backup": ("kcp_py.cli.backup:backup", "Copy the sqlite store into a file, while the server runs or not."),
    "restore": ("kcp_py.cli.backup:restore", "Put a copy in the place of the sqlite store."),
    "envtest-assets": ("kcp_py.cli.envtest.assets:envtest_assets", "Write kube-apiserver, etcd and kubectl for envtest and its like."),
    "doctor": ("kcp_py.cli.doctor:doctor", "Check files, certificates, the store, the port and the libraries."),
    "completion": ("kcp_py.cli.completion:completion", "Print the completion script of a shell: bash, zsh or fish."),
    "man": ("kcp_py.cli.manpages:man", "Write the man pages of all commands into a directory."),
    "version": ("kcp_py.cli.version:version", "Print the version."),
}
"""By name: where the command is, and its line in `kcp-py --help`, so that help needs no import."""

PROGRAM: Final = "kcp-py"


class _Program(LazyGroup):
    """The commands of the program."""

    locations = COMMANDS


@click.group(
    cls=_Program,
    manual=Manual(
        (
            "kcp-py start  # run a server in this directory",
            "export KUBECONFIG=$PWD/.kcp/admin.kubeconfig  # use it",
            "kcp-py cluster create team-a  # make a logical cluster",
            "kcp-py cluster kubeconfig team-a -o team-a.kubeconfig",
            "kubectl --kubeconfig team-a.kubeconfig get namespaces",
        ),
        environment=(KUBECONFIG, SETTINGS_VARIABLES),
        files=ROOT_FILES,
        see_also=("start", "cluster", "doctor", "completion"),
    ),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(__version__, "--version", message="kcp-py %(version)s")
def cli() -> None:
    """A Kubernetes-compatible control plane that serves very many logical clusters from one process."""


_OUTPUT_ERRORS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
"""Of writes to standard output. A reader that has gone (`| head`) is not among them: click ends the program quietly with code 1."""


def _without_output(error: OSError) -> int:
    """The exit code of a command whose output cannot be written, as onto a full disk."""
    # The rest of the buffer would fail again when Python ends.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.echo(f"error: cannot write the output: {error.strerror}", err=True)
    return 1


def run(arguments: list[str] | None = None, *, repeatable: bool = False) -> int:
    """Run the command line and return its exit code. Each error is one line on stderr, without the usage text around it.

    Args:
        arguments: the command line; that of the process by default.
        repeatable: whether the process does nothing else, so that it may run its command line again.
    """
    prepare_outputs()
    # The convention of https://no-color.org: any text but an empty one; None lets click look for a terminal.
    color = False if os.environ.get("NO_COLOR") else None
    try:
        result: Any = cli.main(args=arguments, prog_name=PROGRAM, standalone_mode=False, color=color, obj=repeatable)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.NoSuchOption as error:
        click.echo(f"error: {unknown_option(error)}", err=True)
        return 2
    except click.UsageError as error:
        click.echo(f"error: {' '.join(error.format_message().split()).rstrip('.')}", err=True)
        return 2
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except OSError as error:
        if error.filename is not None or error.errno not in _OUTPUT_ERRORS:
            raise
        return _without_output(error)
    return result if isinstance(result, int) else 0
