"""`kcp-py cluster label | annotate`: labels and annotations of LogicalCluster objects."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kcp_py.cli.clusterapi import change_cluster
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.flags import ClusterName, access_flags
from kcp_py.cli.manual import Documented, of_server
from kcp_py.cli.remote import RemoteServer, load_context


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster label team-a tier=gold",
        "kcp-py cluster label team-a tier-",
        see_also=("cluster annotate", "cluster list"),
        notes="CHANGES are KEY=VALUE, and KEY- to remove one.",
    ),
)
@click.argument("name", type=ClusterName())
@click.argument("changes", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Change labels that have another value.")
@access_flags
def label(name: str, changes: Sequence[str], kubeconfig: str | None, context: str | None, *, overwrite: bool) -> None:
    """Change labels of the logical cluster NAME."""
    changed = _change(name, "labels", parse_changes(changes), kubeconfig, context, overwrite=overwrite)
    click.echo(f"logical cluster {name} {'labeled' if changed else 'unchanged'}")


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster annotate team-a kcp-py.io/deletion-protection=true",
        "kcp-py cluster annotate team-a kcp-py.io/deletion-protection-",
        see_also=("cluster label", "cluster describe"),
        notes="CHANGES are KEY=VALUE, and KEY- to remove one.",
    ),
)
@click.argument("name", type=ClusterName())
@click.argument("changes", nargs=-1, required=True)
@click.option("--overwrite", is_flag=True, help="Change annotations that have another value.")
@access_flags
def annotate(name: str, changes: Sequence[str], kubeconfig: str | None, context: str | None, *, overwrite: bool) -> None:
    """Change annotations of the logical cluster NAME."""
    changed = _change(name, "annotations", parse_changes(changes), kubeconfig, context, overwrite=overwrite)
    click.echo(f"logical cluster {name} {'annotated' if changed else 'unchanged'}")


def parse_changes(changes: Sequence[str]) -> dict[str, str | None]:
    """What `KEY=VALUE` and `KEY-` say: the value of each key, None for one to remove.

    Raises:
        UsageError: a word is neither, or names a key again.
    """
    found: dict[str, str | None] = {}
    for change in map(decoded, changes):
        key, equals, value = change.partition("=")
        if not equals:
            key = change.removesuffix("-")
        if not key or not (equals or change.endswith("-")):
            raise UsageError(f'CHANGES: "{change}" is neither KEY=VALUE nor KEY-')
        if key in found:
            raise UsageError(f"CHANGES: {key} is given twice")
        found[key] = value if equals else None
    return found


def parse_pairs(pairs: Sequence[str], flag: str) -> dict[str, str]:
    """What repeated flags with `KEY=VALUE` say.

    Raises:
        UsageError: a value is not of that form, or names a key again.
    """
    found: dict[str, str] = {}
    for pair in map(decoded, pairs):
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f'{flag}: "{pair}" is not KEY=VALUE')
        if key in found:
            raise UsageError(f"{flag}: {key} is given twice")
        found[key] = value
    return found


def decoded(argument: str) -> str:
    """An argument as UTF-8, independent of the encoding of the locale.

    Raises:
        UsageError: it is not UTF-8, so that no API object can hold it.
    """
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{argument!r} is not UTF-8") from None


def _change(
    name: str, member: str, changes: Mapping[str, str | None], kubeconfig: str | None, context: str | None, *, overwrite: bool
) -> bool:
    """Whether there was anything to change."""

    def change(obj: dict[str, Any]) -> dict[str, Any] | None:
        current = obj["metadata"].get(member) or {}
        wanted = {key: value for key, value in changes.items() if current.get(key) != value}
        if not overwrite:
            for key, value in wanted.items():
                if value is not None and key in current:
                    raise CommandError(f'{key} has the value "{current[key]}"; --overwrite changes it')
        return {member: wanted} if wanted else None

    with RemoteServer(load_context(kubeconfig, context)) as server:
        return change_cluster(server, name, change)
