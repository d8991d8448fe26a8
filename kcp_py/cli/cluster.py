"""`kcp-py cluster`: logical clusters of a running server, through its API."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

import click

from kcp_py.apis.kcp.logicalclusters import DELETE_AFTER_ANNOTATION, LONGEST_GRACE_SECONDS, delete_after
from kcp_py.cli.clusterapi import (
    change_cluster,
    create_cluster,
    find_cluster,
    is_absent,
    object_path,
    undelete_hint,
)
from kcp_py.cli.clusterkubeconfig import kubeconfig_
from kcp_py.cli.clusterlabels import annotate, label, parse_pairs
from kcp_py.cli.clustermembers import grant, members, parse_subjects, revoke
from kcp_py.cli.clusterviews import describe, get, list_
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.flags import ClusterName, access_flags
from kcp_py.cli.groups import CommandGroup
from kcp_py.cli.manual import of_server
from kcp_py.cli.remote import RemoteError, RemoteServer, load_context
from kcp_py.logicalcluster import ROOT, is_system
from kcp_py.options.kinds import parse_duration

FIRST_POLL: Final = 0.05
SLOWEST_POLL: Final = 1.0


@click.group(
    cls=CommandGroup,
    manual=of_server(
        "kcp-py cluster create team-a",
        "kcp-py cluster list",
        "kcp-py cluster kubeconfig team-a -o team-a.kubeconfig",
        "kcp-py cluster delete team-a",
        see_also=("start", "builtin"),
    ),
)
def cluster() -> None:
    """Create, show, change and delete the logical clusters of a running server.

    The server and the credentials are those of a kubeconfig: --kubeconfig, else $KUBECONFIG, else .kcp/admin.kubeconfig here.
    """


@cluster.command(
    manual=of_server(
        "kcp-py cluster create team-a",
        "kcp-py cluster create team-a --if-not-exists --label tier=gold",
        "kcp-py cluster create team-a --admin alice --admin-group team-a",
        see_also=("cluster grant", "cluster kubeconfig", "cluster delete"),
    )
)
@click.argument("name", type=ClusterName())
@click.option("--if-not-exists", is_flag=True, help="Do nothing, and succeed, where the logical cluster exists.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the new logical cluster; may be repeated.")
@click.option("--annotation", "annotations", multiple=True, metavar="KEY=VALUE", help="Annotation of it; may be repeated.")
@click.option("--admin", "admins", multiple=True, metavar="USER", help="User who administers it (cluster-admin); may be repeated.")
@click.option("--admin-group", "admin_groups", multiple=True, metavar="GROUP", help="Group that administers it; may be repeated.")
@access_flags
def create(
    name: str,
    labels: Sequence[str],
    annotations: Sequence[str],
    kubeconfig: str | None,
    context: str | None,
    *,
    if_not_exists: bool,
    admins: Sequence[str],
    admin_groups: Sequence[str],
) -> None:
    """Create the logical cluster NAME.

    With --if-not-exists, administrators and groups are added to those of a logical cluster that exists.
    """
    subjects = parse_subjects(admins, admin_groups, (), user="--admin", group="--admin-group") if admins or admin_groups else []
    metadata = {"labels": parse_pairs(labels, "--label"), "annotations": parse_pairs(annotations, "--annotation")}
    with RemoteServer(load_context(kubeconfig, context)) as server:
        try:
            create_cluster(server, name, {member: values for member, values in metadata.items() if values})
        except RemoteError as error:
            if error.status != 409:
                raise
            find_cluster(server, name)
            if not if_not_exists:
                raise CommandError(f"logical cluster {name} exists already") from None
            click.echo(f"logical cluster {name} exists already")
        else:
            click.echo(f"logical cluster {name} created")
        if subjects:
            from kcp_py.cli.clusterbindings import ADMIN_ROLE, grant_role

            for line in grant_role(server, name, ADMIN_ROLE, subjects):
                click.echo(line)


@cluster.command(
    manual=of_server(
        "kcp-py cluster delete team-a",
        "kcp-py cluster delete team-a --yes --ignore-not-found",
        "kcp-py cluster delete team-a --grace-period 24h",
        "kcp-py cluster delete team-a --wait=false",
        see_also=("cluster undelete", "cluster list"),
    )
)
@click.argument("name", type=ClusterName())
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Without a terminal nothing is asked.")
@click.option("--ignore-not-found", is_flag=True, help="Succeed where there is no such logical cluster.")
@click.option("--grace-period", metavar="DURATION", help="How long the deletion can be undone; 0: not at all.  [the server's]")
@click.option("--wait", type=bool, default=True, metavar="true|false", help="Wait until everything in it is gone.  [true]")
@click.option("--timeout", default="5m", metavar="DURATION", help="How long to wait.  [5m]")
@click.option("--force", is_flag=True, help="Empty root or a system: cluster, too, which the server needs.")
@access_flags
def delete(
    name: str,
    grace_period: str | None,
    timeout: str,
    kubeconfig: str | None,
    context: str | None,
    *,
    yes: bool,
    ignore_not_found: bool,
    wait: bool,
    force: bool,
) -> None:
    """Delete the logical cluster NAME with everything in it."""
    if not force and (name == ROOT or is_system(name)):
        raise UsageError(f"{name} belongs to the server itself; to delete everything in it all the same, add --force")
    patience = _duration("--timeout", timeout)
    query = ""
    if grace_period is not None:
        seconds = min(math.ceil(_duration("--grace-period", grace_period)), LONGEST_GRACE_SECONDS)
        query = f"?gracePeriodSeconds={seconds}"
    with RemoteServer(load_context(kubeconfig, context)) as server:
        if not yes and sys.stdin is not None and sys.stdin.isatty():
            click.confirm(f"Delete logical cluster {name} with everything in it?", abort=True, err=True)
        try:
            answer = server.request("DELETE", object_path(name) + query)
        except RemoteError as error:
            if ignore_not_found and is_absent(server, name, error):
                click.echo(f"logical cluster {name} not found")
                return
            if error.status in {403, 404}:
                raise CommandError(f"there is no logical cluster {name}, or it may not be deleted: {error.message}") from None
            raise
        if answer.get("kind") == "LogicalCluster" and (after := delete_after(answer)) is not None:
            click.echo(f"logical cluster {name} deleted; {undelete_hint(name, after)}")
            return
        if wait:
            _wait_until_gone(server, name, uid=_uid(answer), patience=patience)
    click.echo(f"logical cluster {name} deleted" if wait else f"logical cluster {name} is being deleted")


@cluster.command(manual=of_server("kcp-py cluster undelete team-a", see_also=("cluster delete",)))
@click.argument("name", type=ClusterName())
@access_flags
def undelete(name: str, kubeconfig: str | None, context: str | None) -> None:
    """Bring back the logical cluster NAME, which was deleted with a grace period that has not ended."""

    def change(obj: dict[str, Any]) -> dict[str, Any] | None:
        if obj["metadata"].get("deletionTimestamp"):
            raise CommandError(f"the content of logical cluster {name} is being deleted already: it cannot be brought back")
        if delete_after(obj) is None:
            raise CommandError(f"logical cluster {name} is not deleted")
        return {"annotations": {DELETE_AFTER_ANNOTATION: None}}

    with RemoteServer(load_context(kubeconfig, context)) as server:
        change_cluster(server, name, change)
    click.echo(f"logical cluster {name} undeleted")


for _command in (annotate, describe, get, grant, kubeconfig_, label, list_, members, revoke):
    cluster.add_command(_command)


def _duration(flag: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _uid(answer: dict[str, Any]) -> str | None:
    # A deletion that is done at once is answered with a Status, one that waits for finalizers with the object.
    uid = answer.get("metadata", {}).get("uid") or answer.get("details", {}).get("uid")
    return None if uid is None else str(uid)


def _wait_until_gone(server: RemoteServer, name: str, *, uid: str | None, patience: float) -> None:
    started = time.monotonic()
    pause = FIRST_POLL
    visible = sys.stderr.isatty()
    while True:
        try:
            found = server.request("GET", object_path(name))
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
