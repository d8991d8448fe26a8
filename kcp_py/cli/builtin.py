"""`kcp-py builtin`: kinds of Kubernetes that logical clusters of a running server can be given, as CRDs, through its API."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from kcp_py.apis.upstream.crds import crds_of, versions_of
from kcp_py.bootstrap.installed import INSTALLED_ANNOTATION, marked_as_installed
from kcp_py.bootstrap.unenforced import unenforced_warning
from kcp_py.bootstrap.upstream_names import UnknownKindError, find_kinds
from kcp_py.cli.clusterapi import find_cluster, require_cluster
from kcp_py.cli.completion import complete_kinds
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.flags import ClusterName, access_flags, create_flag
from kcp_py.cli.groups import CommandGroup
from kcp_py.cli.manual import of_server
from kcp_py.cli.printing import table
from kcp_py.cli.remote import RemoteError, RemoteServer, load_context
from kcp_py.kubeconfig import KubeconfigContext

RESOURCE: Final = "apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATIENCE: Final = 60.0
POLL: Final = 0.05

_Command = TypeVar("_Command", bound=Callable[..., Any])
_CRD = dict[str, Any]


@click.group(
    cls=CommandGroup,
    manual=of_server(
        "kcp-py builtin list",
        "kcp-py builtin install --cluster team-a pods deployments.apps services",
        "kcp-py builtin install --dry-run -o yaml '*.apps' > apps.yaml",
        see_also=("cluster", "validate"),
    ),
)
def builtin() -> None:
    """Install kinds of Kubernetes in a logical cluster, as clients have them compiled in.

    A cluster serves them as objects: there are no nodes, and nothing runs.
    """


def _cluster_flags(command: _Command) -> _Command:
    flag = click.option("--cluster", type=ClusterName(), metavar="NAME", help="Logical cluster; else that of the kubeconfig's server.")
    return flag(access_flags(command))


@builtin.command(
    manual=of_server(
        "kcp-py builtin install --cluster team-a pods deployments.apps",
        "kcp-py builtin install --cluster team-a all",
        "kcp-py builtin install --dry-run -o yaml pods | kubectl apply -f -",
        see_also=("builtin list", "builtin uninstall"),
        notes="NAMES are those of kubectl (pods, po, Deployment, deployments.apps), *.GROUP for a whole group (*.apps, *.core), or all.",
    ),
)
@click.argument("names", nargs=-1, required=True, shell_complete=complete_kinds)
@click.option("--dry-run", is_flag=True, help="Print what would be installed; the server is not asked.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "name", "json", "yaml"]),
    default="text",
    help="Form of the output: progress, names, or the definitions.  [text]",
)
@create_flag
@_cluster_flags
def install(
    names: Sequence[str], output: str, cluster: str | None, kubeconfig: str | None, context: str | None, *, dry_run: bool, create: bool
) -> None:
    """Install the definitions of the kinds NAMES, and wait until they are served. Installed definitions are updated."""
    wanted = crds_of(_kinds(names))
    for crd in wanted:
        if warning := unenforced_warning(crd["spec"]["group"], crd["spec"]["names"]["plural"]):
            click.echo(f"warning: {warning}", err=True)
    if dry_run:
        _print(wanted, output, "would be installed")
        return
    access = load_context(kubeconfig, context)
    with RemoteServer(access) as server:
        path = _path(server, access, cluster, create=create)
        started = time.monotonic()
        for crd in wanted:
            done = _put(server, path, marked_as_installed(crd))
            if output == "text":
                click.echo(f"{crd['metadata']['name']} {done}")
        _wait_until_established(server, path, [crd["metadata"]["name"] for crd in wanted], started)
    if output != "text":
        _print(wanted, output, "")


@builtin.command(
    manual=of_server("kcp-py builtin uninstall --cluster team-a deployments.apps", see_also=("builtin install", "builtin list"))
)
@click.argument("names", nargs=-1, required=True, shell_complete=complete_kinds)
@_cluster_flags
def uninstall(names: Sequence[str], cluster: str | None, kubeconfig: str | None, context: str | None) -> None:
    """Delete the definitions of the kinds NAMES, and all objects of these kinds with them."""
    wanted = crds_of(_kinds(names))
    access = load_context(kubeconfig, context)
    with RemoteServer(access) as server:
        path = _path(server, access, cluster)
        for crd in wanted:
            name = crd["metadata"]["name"]
            try:
                # Only this command deletes a marked CRD: it removes the mark first.
                server.request("PATCH", f"{path}/{name}", {"metadata": {"annotations": {INSTALLED_ANNOTATION: None}}})
                server.request("DELETE", f"{path}/{name}")
                click.echo(f"{name} deleted")
            except RemoteError as error:
                if error.status != 404:
                    raise
                click.echo(f"{name} not found")


@builtin.command(
    name="list",
    manual=of_server("kcp-py builtin list", "kcp-py builtin list --cluster team-a", see_also=("builtin install",)),
)
@_cluster_flags
def list_(cluster: str | None, kubeconfig: str | None, context: str | None) -> None:
    """List the kinds that can be installed; with --cluster, also whether they are."""
    found: frozenset[str] | None = None
    if cluster is not None:
        access = load_context(kubeconfig, context)
        with RemoteServer(access) as server:
            found = frozenset(_installed(server, _path(server, access, cluster)))
    rows = [["NAME", "KIND", "VERSIONS", "SHORTNAMES", *([] if found is None else ["INSTALLED"])]]
    for crd in crds_of(find_kinds(["all"])):
        spec, name = crd["spec"], crd["metadata"]["name"]
        versions = ",".join(version.version for version in versions_of(spec["group"], spec["names"]["kind"]))
        plural = f"{spec['names']['plural']}.{spec['group']}" if spec["group"] else spec["names"]["plural"]
        installed = [] if found is None else ["yes" if name in found else "no"]
        rows.append([plural, spec["names"]["kind"], versions, ",".join(spec["names"].get("shortNames", ())), *installed])
    for line in table(rows):
        click.echo(line)


def _kinds(names: Sequence[str]) -> Any:
    try:
        return find_kinds(names)
    except UnknownKindError as error:
        raise UsageError(str(error)) from None


def _path(server: RemoteServer, access: KubeconfigContext, cluster: str | None, *, create: bool | None = None) -> str:
    """The URL path of the CRDs of a cluster; without a name, of the cluster that the kubeconfig points to.

    Args:
        server: the server.
        access: the kubeconfig.
        cluster: the name that was given.
        create: create the cluster if there is none; None where the command cannot.

    Raises:
        CommandError: there is no such cluster.
    """
    if cluster is None:
        cluster = access.cluster_name
    if not cluster:
        return f"/{RESOURCE}"
    if create is None:
        find_cluster(server, cluster)
    else:
        require_cluster(server, cluster, create=create)
    return f"/clusters/{cluster}/{RESOURCE}"


def _print(crds: Sequence[_CRD], output: str, done: str) -> None:
    match output:
        case "json":
            click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": crds}, indent=2))
        case "yaml":
            import yaml

            for crd in crds:
                click.echo("---\n" + yaml.dump(crd, Dumper=_Dumper(yaml), sort_keys=False), nl=False)
        case "name":
            for crd in crds:
                click.echo(crd["metadata"]["name"])
        case _:
            for crd in crds:
                click.echo(f"{crd['metadata']['name']} {done}")


def _Dumper(yaml: Any) -> Any:  # noqa: N802 (makes a class)
    """Writes equal parts out each time: other readers of YAML limit aliases."""
    return type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})


def _put(server: RemoteServer, path: str, crd: _CRD) -> str:
    """Create a CRD, or update the existing one."""
    name = crd["metadata"]["name"]
    try:
        server.request("POST", path, crd)
    except RemoteError as error:
        if error.status != 409:
            raise CommandError(f"{name}: {error.message}") from None
    else:
        return "created"
    current = server.request("GET", f"{path}/{name}")
    if _holds(current, crd):
        return "unchanged"
    annotations = {**current["metadata"].get("annotations", {}), **crd["metadata"]["annotations"]}
    changed = {"metadata": {**current["metadata"], "annotations": annotations}, "spec": {**current["spec"], **crd["spec"]}}
    server.request("PUT", f"{path}/{name}", {**current, **changed})
    return "configured"


def _holds(current: Any, wanted: Any) -> bool:
    """Whether a stored value is the wanted one, but for what the server filled in."""
    if isinstance(wanted, Mapping) and isinstance(current, Mapping):
        return all(name in current and _holds(current[name], value) for name, value in wanted.items())
    return bool(current == wanted)


def _wait_until_established(server: RemoteServer, path: str, names: Sequence[str], started: float) -> None:
    waiting = list(names)
    while waiting:
        current = server.request("GET", f"{path}/{waiting[0]}")
        conditions = {condition["type"]: condition for condition in current.get("status", {}).get("conditions") or ()}
        if conditions.get("Established", {}).get("status") == "True":
            del waiting[0]
            continue
        if conditions.get("NamesAccepted", {}).get("status") == "False":
            raise CommandError(f"{waiting[0]}: {conditions['NamesAccepted'].get('message', 'its names are in use')}")
        if time.monotonic() - started > PATIENCE:
            raise CommandError(f"{waiting[0]} is not served after {PATIENCE:g}s")
        time.sleep(POLL)


def _installed(server: RemoteServer, path: str) -> Iterator[str]:
    for item in server.request("GET", path).get("items") or ():
        yield item["metadata"]["name"]
