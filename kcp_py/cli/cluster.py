"""`kcp-py cluster`: logical clusters of a running server, through its API."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar
from urllib.parse import quote

import click

from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.remote import Access, RemoteError, RemoteServer
from kcp_py.logicalcluster import ROOT, InvalidClusterError, is_system, parse_name
from kcp_py.options.kinds import parse_duration

RESOURCE: Final = "apis/core.kcp.io/v1alpha1/logicalclusters"
SINGLETON: Final = "cluster"
"""The name of the one LogicalCluster object in each logical cluster."""
CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
PAGE: Final = 500
FIRST_POLL: Final = 0.05
SLOWEST_POLL: Final = 1.0

_Command = TypeVar("_Command", bound=Callable[..., Any])

EXIT_CODES: Final = "Exit codes: 0 done; 1 the server refused or cannot be reached; 2 wrong arguments."


class ClusterName(click.ParamType[str]):
    """A name as `kcp_py.logicalcluster` takes it."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        del param, ctx
        try:
            return parse_name(value)
        except InvalidClusterError:
            raise UsageError(f'NAME: "{value}" is not the name of a logical cluster') from None


@click.group(
    epilog="\b\nExamples:\n  kcp-py cluster create team-a\n  kcp-py cluster list\n  kcp-py cluster kubeconfig team-a > team-a.kubeconfig\n"
    "  kcp-py cluster delete team-a",
)
def cluster() -> None:
    """Create, list and delete the logical clusters of a running server.

    The server and the credentials are those of a kubeconfig: --kubeconfig, else $KUBECONFIG, else .kcp/admin.kubeconfig here.
    """


def _access_flags(command: _Command) -> _Command:
    command = click.option("--context", metavar="NAME", help="Context of the kubeconfig instead of its current one.")(command)
    return click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use.")(command)


@cluster.command(epilog=f"{EXIT_CODES}\n\n\b\nExample:\n  kcp-py cluster create team-a")
@click.argument("name", type=ClusterName())
@_access_flags
def create(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Create the logical cluster NAME."""
    body = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": SINGLETON}}
    with RemoteServer(Access.load(kubeconfig, context)) as server:
        try:
            server.request("POST", f"/clusters/{name}/{RESOURCE}", body)
        except RemoteError as error:
            if error.status == 409:
                raise CommandError(f"logical cluster {name} exists already") from None
            raise
    click.echo(f"logical cluster {name} created")


@cluster.command(
    name="list",
    epilog=f"{EXIT_CODES}\n\n\b\nExamples:\n  kcp-py cluster list\n  kcp-py cluster list -o name | wc -l\n  kcp-py cluster list -o json",
)
@click.option("-o", "--output", type=click.Choice(["table", "name", "json"]), default="table", help="Form of the output.  [table]")
@_access_flags
def list_(output: str, kubeconfig: str | None, context: str | None) -> None:
    """List every logical cluster. Pages are printed as they arrive, so that any number can be listed."""
    with RemoteServer(Access.load(kubeconfig, context)) as server:
        objects = _logical_clusters(server)
        if output == "name":
            for item in objects:
                click.echo(_name(item))
        elif output == "json":
            click.echo(json.dumps(list(objects), indent=2))
        else:
            _print_table(objects)


@cluster.command(epilog=f"{EXIT_CODES}\n\n\b\nExamples:\n  kcp-py cluster delete team-a\n  kcp-py cluster delete team-a --wait=false")
@click.argument("name", type=ClusterName())
@click.option("--wait", type=bool, default=True, metavar="true|false", help="Wait until everything in it is gone.  [true]")
@click.option("--timeout", default="5m", metavar="DURATION", help="How long to wait.  [5m]")
@click.option("--force", is_flag=True, help="Empty root or a system: cluster, too, which the server needs.")
@_access_flags
def delete(name: str, timeout: str, kubeconfig: str | None, context: str | None, *, wait: bool, force: bool) -> None:
    """Delete the logical cluster NAME with everything in it."""
    if not force and (name == ROOT or is_system(name)):
        raise UsageError(f"{name} belongs to the server itself; to delete everything in it all the same, add --force")
    try:
        patience = parse_duration(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    with RemoteServer(Access.load(kubeconfig, context)) as server:
        try:
            answer = server.request("DELETE", f"/clusters/{name}/{RESOURCE}/{SINGLETON}")
        except RemoteError as error:
            if error.status in {403, 404}:
                raise CommandError(f"there is no logical cluster {name}, or it may not be deleted: {error.message}") from None
            raise
        if wait:
            _wait_until_gone(server, name, uid=_uid(answer), patience=patience)
    click.echo(f"logical cluster {name} deleted" if wait else f"logical cluster {name} is being deleted")


@cluster.command(
    name="kubeconfig",
    epilog=f"{EXIT_CODES}\n\n\b\nExample:\n  kcp-py cluster kubeconfig team-a > team-a.kubeconfig\n"
    "  kubectl --kubeconfig team-a.kubeconfig get namespaces",
)
@click.argument("name", type=ClusterName())
@_access_flags
def kubeconfig_(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Print a kubeconfig for the logical cluster NAME.

    It has the same credentials; the server is not asked.
    """
    from kcp_py.cli.credentials import render_kubeconfig

    access = Access.load(kubeconfig, context)
    cluster_entry, user_entry = access.embedded()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {**cluster_entry, "server": f"{access.base_url}/clusters/{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": access.user_name}}],
        "current-context": name,
        "preferences": {},
        "users": [{"name": access.user_name, "user": user_entry}],
    }
    click.echo(render_kubeconfig(document), nl=False)


def _logical_clusters(server: RemoteServer) -> Iterator[dict[str, Any]]:
    path = f"/clusters/*/{RESOURCE}?limit={PAGE}"
    token = ""
    while True:
        page = server.request("GET", path + (f"&continue={quote(token, safe='')}" if token else ""))
        yield from page.get("items") or []
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return


def _print_table(objects: Iterator[dict[str, Any]]) -> None:
    now = dt.datetime.now(dt.UTC)
    row = "{:<40} {:<14} {}"
    first = next(objects, None)
    if first is None:
        click.echo("no logical clusters", err=True)
        return
    click.echo(row.format("NAME", "PHASE", "AGE"))
    for item in itertools.chain([first], objects):
        phase = "Deleting" if item["metadata"].get("deletionTimestamp") else item.get("status", {}).get("phase", "")
        click.echo(row.format(_name(item), phase, _age(item["metadata"].get("creationTimestamp"), now)))


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"].get("annotations", {}).get(CLUSTER_ANNOTATION, ""))


def _uid(answer: dict[str, Any]) -> str | None:
    # A deletion that is done at once is answered with a Status, one that waits for finalizers with the object.
    uid = answer.get("metadata", {}).get("uid") or answer.get("details", {}).get("uid")
    return None if uid is None else str(uid)


def _age(created: str | None, now: dt.datetime) -> str:
    if not created:
        return "<unknown>"
    seconds = max(0, int((now - dt.datetime.fromisoformat(created)).total_seconds()))
    for length, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _wait_until_gone(server: RemoteServer, name: str, *, uid: str | None, patience: float) -> None:
    started = time.monotonic()
    pause = FIRST_POLL
    visible = sys.stderr.isatty()
    while True:
        try:
            found = server.request("GET", f"/clusters/{name}/{RESOURCE}/{SINGLETON}")
        except RemoteError as error:
            if error.status in {403, 404}:
                break
            raise
        if uid is not None and found["metadata"].get("uid") != uid:
            break
        waited = time.monotonic() - started
        if waited > patience:
            raise CommandError(f"logical cluster {name} is not gone after {patience:g}s: {_holding(found)}")
        if visible:
            click.echo(f"\rdeleting {name} … {waited:.0f}s, {_holding(found)}\033[K", nl=False, err=True)
        time.sleep(pause)
        pause = min(pause * 2, SLOWEST_POLL)
    if visible:
        click.echo("\r\033[K", nl=False, err=True)


def _holding(found: dict[str, Any]) -> str:
    """What a deletion waits for, as the object tells it."""
    for condition in found.get("status", {}).get("conditions") or []:
        if condition.get("status") == "False" and condition.get("message"):
            return str(condition["message"])
    finalizers = found["metadata"].get("finalizers") or []
    return f"finalizers {', '.join(finalizers)}" if finalizers else "its objects are being deleted"
