"""`kcp-py cluster get | list | describe`: logical clusters as tables, names, JSON, YAML and text."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import click

from kcp_py.apis.kcp.logicalclusters import delete_after, is_protected
from kcp_py.cli.clusterapi import CLUSTER_ANNOTATION, cluster_name, get_cluster, list_clusters
from kcp_py.cli.flags import ClusterName, access_flags
from kcp_py.cli.manual import Documented, of_server
from kcp_py.cli.printing import printable, table
from kcp_py.cli.remote import RemoteServer, load_context

PAGE: Final = 500
"""Rows that are printed at once: a list of any length is printed as it arrives."""
NONE: Final = "<none>"

_OUTPUTS: Final = ["table", "wide", "name", "json", "yaml"]
_output_flag = click.option("-o", "--output", type=click.Choice(_OUTPUTS), default="table", help="Form of the output.  [table]")


@click.command(
    name="list",
    cls=Documented,
    manual=of_server(
        "kcp-py cluster list",
        "kcp-py cluster list -l tier=gold",
        "kcp-py cluster list -o name | wc -l",
        "kcp-py cluster list -o json",
        see_also=("cluster get", "cluster create"),
    ),
)
@_output_flag
@click.option("-l", "--selector", default="", metavar="SELECTOR", help="Only those with these labels: tier=gold,owner!=x.")
@access_flags
def list_(output: str, selector: str, kubeconfig: str | None, context: str | None) -> None:
    """List logical clusters. Pages are printed as they arrive, so that any number can be listed."""
    with RemoteServer(load_context(kubeconfig, context)) as server:
        found = list_clusters(server, selector=selector)
        first = next(found, None)
        if first is None and output in {"table", "wide"}:
            click.echo("no logical clusters", err=True)
            return
        print_clusters(found if first is None else itertools.chain([first], found), output)


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py cluster get team-a",
        "kcp-py cluster get team-a team-b -o wide",
        "kcp-py cluster get team-a -o yaml",
        see_also=("cluster list", "cluster describe"),
    ),
)
@click.argument("names", nargs=-1, required=True, type=ClusterName(), metavar="NAME...")
@_output_flag
@access_flags
def get(names: Sequence[str], output: str, kubeconfig: str | None, context: str | None) -> None:
    """Show the logical clusters NAME."""
    with RemoteServer(load_context(kubeconfig, context)) as server:
        found = [get_cluster(server, name) for name in names]
    if output == "json" and len(found) == 1:
        click.echo(json.dumps(found[0], indent=2))
    else:
        print_clusters(iter(found), output)


@click.command(cls=Documented, manual=of_server("kcp-py cluster describe team-a", see_also=("cluster get", "cluster members")))
@click.argument("name", type=ClusterName())
@access_flags
def describe(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Describe the logical cluster NAME: labels, protection, what a deletion waits for."""
    with RemoteServer(load_context(kubeconfig, context)) as server:
        found = get_cluster(server, name)
    for line in description(found, dt.datetime.now(dt.UTC)):
        click.echo(line)


def print_clusters(objects: Iterator[dict[str, Any]], output: str) -> None:
    """Print LogicalCluster objects.

    Args:
        objects: taken one page after the other.
        output: table, wide, name, json (an array) or yaml (a document each).
    """
    match output:
        case "name":
            for item in objects:
                click.echo(cluster_name(item))
        case "json":
            _print_json(objects)
        case "yaml":
            import yaml

            for item in objects:
                click.echo("---\n" + yaml.safe_dump(item, sort_keys=False, allow_unicode=True), nl=False)
        case _:
            _print_table(objects, wide=output == "wide")


def phase(item: dict[str, Any]) -> str:
    """What a cluster is about: its phase, `Deleting` while its content goes, `Deleted` while it can be undeleted."""
    if item["metadata"].get("deletionTimestamp"):
        return "Deleting"
    if delete_after(item) is not None:
        return "Deleted"
    return str((item.get("status") or {}).get("phase", ""))


def age(created: str | None, now: dt.datetime) -> str:
    """The time since then, in one unit."""
    if not created:
        return "<unknown>"
    seconds = max(0, int((now - dt.datetime.fromisoformat(created)).total_seconds()))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def description(item: dict[str, Any], now: dt.datetime) -> Iterator[str]:
    """The lines of `describe`."""
    metadata, status = item["metadata"], item.get("status") or {}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != CLUSTER_ANNOTATION}
    after = delete_after(item)
    rows: list[tuple[str, Iterable[str]]] = [
        ("Name", [cluster_name(item)]),
        ("Phase", [phase(item)]),
        ("URL", [status.get("URL", "")]),
        ("UID", [metadata.get("uid", "")]),
        ("Created", [f"{metadata.get('creationTimestamp', '')} ({age(metadata.get('creationTimestamp'), now)})"]),
        ("Labels", [f"{key}={value}" for key, value in sorted((metadata.get("labels") or {}).items())]),
        ("Annotations", [f"{key}={value}" for key, value in sorted(annotations.items())]),
        ("Deletion protection", ["yes" if is_protected(item) else "no"]),
        ("Finalizers", metadata.get("finalizers") or []),
    ]
    if after is not None:
        rows.append(("Deleted", [f'until {after} "kcp-py cluster undelete {cluster_name(item)}" brings it back']))
    if metadata.get("deletionTimestamp"):
        rows.append(("Deleting since", [metadata["deletionTimestamp"]]))
    conditions = status.get("conditions") or []
    rows.append(("Conditions", [] if conditions else [NONE]))
    width = max(len(name) for name, _ in rows) + 3
    for name, values in rows:
        lines = [value for value in values if value] or ([] if conditions and name == "Conditions" else [NONE])
        yield f"{name + ':':<{width}}{printable(lines[0])}" if lines else f"{name}:"
        yield from (f"{'':<{width}}{printable(line)}" for line in lines[1:])
    if conditions:
        columns = ("type", "status", "reason", "message")
        cells = [[str(condition.get(column, "")) for column in columns] for condition in conditions]
        yield from (f"  {line}" for line in table([[column.upper() for column in columns], *cells]))


def _print_json(objects: Iterator[dict[str, Any]]) -> None:
    """An array, printed element by element."""
    separator = "[\n"
    for item in objects:
        text = json.dumps(item, indent=2).replace("\n", "\n  ")
        click.echo(f"{separator}  {text}", nl=False)
        separator = ",\n"
    click.echo("[]" if separator == "[\n" else "\n]")


def _print_table(objects: Iterator[dict[str, Any]], *, wide: bool) -> None:
    now = dt.datetime.now(dt.UTC)
    heading = ["NAME", "PHASE", "AGE", *(["URL", "UID", "PROTECTED", "LABELS"] if wide else [])]
    widths = [0] * len(heading)
    part = [heading]
    while rows := [_row(item, now, wide=wide) for item in itertools.islice(objects, PAGE)]:
        for line in table(part + rows, widths):
            click.echo(line)
        part = []


def _row(item: dict[str, Any], now: dt.datetime, *, wide: bool) -> list[str]:
    metadata = item["metadata"]
    row = [cluster_name(item), phase(item), age(metadata.get("creationTimestamp"), now)]
    if wide:
        labels = ",".join(f"{key}={value}" for key, value in sorted((metadata.get("labels") or {}).items()))
        row += [(item.get("status") or {}).get("URL", ""), metadata.get("uid", ""), "yes" if is_protected(item) else "no", labels or NONE]
    return row
