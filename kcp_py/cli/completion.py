"""`kcp-py completion`: scripts for shells, and what they are answered where the command line alone does not know the values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from kcp_py.cli.manual import Documented, Manual
from kcp_py.logicalcluster import InvalidClusterError, parse_name
from kcp_py.options import Setting
from kcp_py.options.kinds import BOOLEAN, OPTIONAL_BOOLEAN, OPTIONAL_PATH, PATH

VARIABLE: Final = "_KCP_PY_COMPLETE"
"""What the scripts set when they ask for completions."""
SECONDS: Final = 2.0
"""How long a server may take: a shell that waits longer is worse than one that completes nothing."""
MOST: Final = 500
"""How many objects are looked at."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]


@click.command(
    cls=Documented,
    manual=Manual(
        (
            ". <(kcp-py completion bash)  # this shell",
            "kcp-py completion bash > ~/.local/share/bash-completion/completions/kcp-py",
            'kcp-py completion zsh > "${fpath[1]}/_kcp-py"',
            "kcp-py completion fish > ~/.config/fish/completions/kcp-py.fish",
        ),
        see_also=("man",),
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes commands, flags, values and names of logical clusters in a shell.

    Names of logical clusters come from the server of the kubeconfig, as the commands find it.
    """
    from kcp_py.cli.root import PROGRAM, cli

    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, PROGRAM, VARIABLE)
    # Not `source()`, which runs bash to look at its version.
    click.echo(script.source_template % script.source_vars(), nl=False)


def complete_clusters(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Names of logical clusters of the server that the command line names so far; none where it does not answer."""
    from kcp_py.cli.clusterapi import cluster_name, list_page
    from kcp_py.cli.exits import CommandError
    from kcp_py.cli.remote import RemoteServer, load_context

    names: Sequence[str] = ()
    with contextlib.suppress(CommandError):
        access = load_context(context.params.get("kubeconfig"), context.params.get("context"))
        with RemoteServer(access, timeout=SECONDS) as server:
            names = [cluster_name(item) for item in list_page(server, limit=MOST)["items"]]
    return _starting(names, incomplete)


def complete_roles(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """ClusterRoles of the logical cluster that the command line names; those of `system:` once the word begins so."""
    names = _names_in_cluster(context, "apis/rbac.authorization.k8s.io/v1/clusterroles")
    return _starting([name for name in names if incomplete.startswith("system:") or not name.startswith("system:")], incomplete)


def complete_namespaces(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Namespaces of the logical cluster that the command line names."""
    return _starting(_names_in_cluster(context, "api/v1/namespaces"), incomplete)


def _names_in_cluster(context: click.Context, resource: str) -> Sequence[str]:
    """Names of objects in the logical cluster of the argument NAME; none where the server does not answer."""
    from kcp_py.cli.exits import CommandError
    from kcp_py.cli.remote import RemoteServer, load_context

    # Where a flag without its value ends the line, click leaves arguments unparsed.
    word = context.params.get("name") or next(iter(context.args), "")
    with contextlib.suppress(CommandError, InvalidClusterError):
        cluster = parse_name(word)
        access = load_context(context.params.get("kubeconfig"), context.params.get("context"))
        with RemoteServer(access, timeout=SECONDS) as server:
            found = server.request("GET", f"/clusters/{cluster}/{resource}?limit={MOST}")
        return [item["metadata"]["name"] for item in found["items"]]
    return ()


def complete_contexts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Contexts of the kubeconfig."""
    from kcp_py.kubeconfig import KubeconfigError, context_names

    names: Sequence[str] = ()
    with contextlib.suppress(KubeconfigError):
        names = context_names(context.params.get("kubeconfig"))
    return _starting(names, incomplete)


def complete_kinds(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Kinds of Kubernetes that can be installed, by their full names."""
    from kcp_py.bootstrap.upstream_kinds import upstream_kinds

    names = {kind.group_resource for kind in upstream_kinds().values()}
    return _starting(sorted(names), incomplete)


def completer(setting: Setting) -> Complete | None:
    """What completes the value of a setting; None where it can be any text."""
    kind = setting.kind
    if setting.name == "builtin_kinds":
        return complete_kinds
    if kind is PATH or kind is OPTIONAL_PATH:
        return lambda _context, _parameter, incomplete: [CompletionItem(incomplete, type="file")]
    words = ["true", "false"] if kind is BOOLEAN or kind is OPTIONAL_BOOLEAN else kind.schema.get("enum")
    if not words:
        return None
    return lambda _context, _parameter, incomplete: _starting(words, incomplete)


def _starting(names: Sequence[str], incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]
