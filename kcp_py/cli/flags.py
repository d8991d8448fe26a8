"""Arguments and flags that the commands about a running server share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from kcp_py.cli.completion import complete_clusters, complete_contexts
from kcp_py.cli.exits import UsageError
from kcp_py.logicalcluster import InvalidClusterError, parse_name

_Command = TypeVar("_Command", bound=Callable[..., Any])


class ClusterName(click.ParamType[str]):
    """A name as `kcp_py.logicalcluster` takes it."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del param, ctx
        try:
            return parse_name(value)
        except InvalidClusterError:
            raise UsageError(f'NAME: "{value}" is not the name of a logical cluster') from None

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        return complete_clusters(ctx, param, incomplete)


def access_flags(command: _Command) -> _Command:
    """`--kubeconfig` and `--context`, as parameters of these names."""
    command = click.option(
        "--context", metavar="NAME", shell_complete=complete_contexts, help="Context of the kubeconfig instead of its current one."
    )(command)
    return click.option("--kubeconfig", type=click.Path(), metavar="FILE", help="Kubeconfig to use.")(command)


def create_flag(command: _Command) -> _Command:
    """`--create`."""
    return click.option("--create", is_flag=True, help="Create the logical cluster if there is none of that name.")(command)
