"""Logical clusters of a running server, as its API shows them: paths, lookups and lists that several commands need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode

from kcp_py.apis.kcp.logicalclusters import NAME, delete_after
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import RemoteError, RemoteServer
from kcp_py.logicalcluster import ROOT, is_system

RESOURCE: Final = "apis/core.kcp.io/v1alpha1/logicalclusters"
CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
PAGE: Final = 500
ATTEMPTS: Final = 16
"""How often a change is tried that other clients cross."""


def object_path(name: str) -> str:
    """The path of a cluster's LogicalCluster object."""
    return f"/clusters/{name}/{RESOURCE}/{NAME}"


def cluster_name(item: dict[str, Any]) -> str:
    """The cluster that a LogicalCluster object is of."""
    return str((item["metadata"].get("annotations") or {}).get(CLUSTER_ANNOTATION, ""))


def get_cluster(server: RemoteServer, name: str) -> dict[str, Any]:
    """The LogicalCluster object of a cluster.

    Raises:
        CommandError: there is none. A server answers 403 for a cluster that is not there as for one that the user may not read.
    """
    try:
        item: dict[str, Any] = server.request("GET", object_path(name))
    except RemoteError as error:
        raise not_there(name, error) from None
    # With --cluster-annotation wildcard the server does not say so of a single object.
    item["metadata"].setdefault("annotations", {}).setdefault(CLUSTER_ANNOTATION, name)
    return item


class AbsentError(CommandError):
    """There is no such logical cluster, or none that the user may use."""


def not_there(name: str, error: RemoteError, *, hint: str = "") -> CommandError:
    """What a command says instead of the server's 403 or 404; any other error stays as it is."""
    if error.status == 404:
        return AbsentError(f"there is no logical cluster {name}{hint}")
    if error.status == 403:
        return AbsentError(f"there is no logical cluster {name}, or you may not use it: {error.message}{hint}")
    return error


def undelete_hint(name: str, after: str) -> str:
    """How a deleted cluster comes back."""
    return f'until {after} "kcp-py cluster undelete {name}" brings it back'


def change_cluster(server: RemoteServer, name: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> bool:
    """Change the metadata of a LogicalCluster object, on what it is at that moment.

    Args:
        server: the server.
        name: the cluster.
        change: from the object to a merge patch of its metadata; None where there is nothing to change. Called again after a conflict.

    Returns:
        Whether there was anything to change.

    Raises:
        CommandError: there is no such cluster, or the server refused the change.
    """
    for _ in range(ATTEMPTS):
        found = get_cluster(server, name)
        patch = change(found)
        if patch is None:
            return False
        # Bound to the version that was read: labels that another client changes meanwhile are not overwritten.
        metadata = {**patch, "uid": found["metadata"]["uid"], "resourceVersion": found["metadata"]["resourceVersion"]}
        try:
            server.request("PATCH", object_path(name), {"metadata": metadata})
        except RemoteError as error:
            if error.status != 409:
                raise
        else:
            return True
    raise CommandError(f"logical cluster {name} is being changed by other clients; try again")


def is_absent(server: RemoteServer, name: str, error: RemoteError) -> bool:
    """Whether the server refused a request because there is no such cluster.

    Where clusters are declared, it answers 403 for those that are not there as for those that the user may not use: the list tells.

    Raises:
        CommandError: the list cannot be read either.
    """
    if error.status != 403:
        return error.status == 404
    return all(cluster_name(item) != name for item in list_clusters(server))


def create_cluster(server: RemoteServer, name: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Create a cluster.

    Args:
        server: the server.
        name: the cluster.
        metadata: labels and annotations of the LogicalCluster object.

    Raises:
        RemoteError: 409 where it exists.
    """
    body = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": NAME, **(metadata or {})}}
    return server.request("POST", f"/clusters/{name}/{RESOURCE}", body)


def find_cluster(server: RemoteServer, name: str, *, hint: str = "") -> None:
    """Check that a cluster exists. `root` and `system:` clusters exist without an object.

    Raises:
        CommandError: it does not exist; `hint` ends the text.
    """
    if name == ROOT or is_system(name):
        return
    try:
        found = server.request("GET", object_path(name))
    except RemoteError as error:
        raise not_there(name, error, hint=hint) from None
    if (after := delete_after(found)) is not None:
        raise CommandError(f"logical cluster {name} is deleted; {undelete_hint(name, after)}")


def require_cluster(server: RemoteServer, name: str, *, create: bool) -> None:
    """Check that a cluster exists; with `create`, make it if it does not.

    Raises:
        CommandError: it does not exist; the text names `--create`.
    """
    try:
        find_cluster(server, name, hint="" if create else "; --create makes it")
    except AbsentError:
        if not create:
            raise
        try:
            create_cluster(server, name)
        except RemoteError as error:
            if error.status != 409:  # another client was faster
                raise


def list_page(server: RemoteServer, *, limit: int = PAGE, token: str = "", selector: str = "") -> dict[str, Any]:
    """One page of the list of all LogicalCluster objects."""
    query = {"limit": str(limit), **({"labelSelector": selector} if selector else {}), **({"continue": token} if token else {})}
    return server.request("GET", f"/clusters/*/{RESOURCE}?{urlencode(query, quote_via=quote, safe='')}")


def list_clusters(server: RemoteServer, *, selector: str = "") -> Iterator[dict[str, Any]]:
    """Every LogicalCluster object, page by page, so that any number can be listed."""
    token = ""
    while True:
        page = list_page(server, token=token, selector=selector)
        yield from page.get("items") or []
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return
