"""`kcp-py generate models`: Python classes from CRDs, or from the kinds of a running server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click

from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.flags import access_flags
from kcp_py.cli.manual import Documented, of_server
from kcp_py.cli.remote import RemoteError


@click.command(
    cls=Documented,
    manual=of_server(
        "kcp-py generate models config/crd -o fleet/types.py",
        "kcp-py generate models crd.yaml --style dataclass",
        "kcp-py generate models --from-cluster team-a  # all CRDs of a logical cluster",
        "kcp-py generate models --from-cluster team-a pods deployments.apps  # kinds of a server",
        see_also=("generate crds",),
    ),
)
@click.argument("sources", nargs=-1, metavar="[FILE|DIRECTORY|-|RESOURCE]...")
@click.option("--style", type=click.Choice(["pydantic", "dataclass"]), default="pydantic", show_default=True, help="Form of the classes.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to a file.")
@click.option("--from-cluster", metavar="NAME", help="Read RESOURCEs, or all CRDs, from a logical cluster of the server of the kubeconfig.")
@access_flags
def models(
    sources: tuple[str, ...],
    kubeconfig: str | None,
    context: str | None,
    *,
    style: Literal["pydantic", "dataclass"],
    output: Path | None,
    from_cluster: str | None,
) -> None:
    """Write Python classes of CRDs, for typed clients and reconcile functions.

    The classes have the constraints, defaults, rules and descriptions of the CRDs: `kcp-py generate crds` makes the same schemas of them.
    """
    from kcp_py.library.generation.modules import module_of_crds

    if from_cluster is not None:
        text = _from_cluster(sources, kubeconfig, context, cluster=from_cluster, style=style)
    else:
        if not sources:
            raise UsageError("name files or directories with CRDs, or --from-cluster")
        crds = [crd for source in sources for crd in read_crds(source)]
        if not crds:
            raise CommandError(f"no CustomResourceDefinition in {', '.join(sources)}")
        text = _written(module_of_crds, crds, style)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_text(text, "utf-8")
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}") from None
    click.echo(str(output))


def read_crds(source: str) -> list[dict[str, Any]]:
    """The CRDs in a file, in the files of a directory, or in standard input (`-`).

    Raises:
        CommandError: a file cannot be read, or is not YAML.
    """
    import yaml

    try:
        if source == "-":
            texts = [("standard input", sys.stdin.read())]
        else:
            path = Path(source)
            files = sorted(one for one in path.rglob("*") if one.suffix in {".yaml", ".yml", ".json"}) if path.is_dir() else [path]
            texts = [(str(one), one.read_text("utf-8")) for one in files]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{source}: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from None
    found: list[dict[str, Any]] = []
    for name, text in texts:
        try:
            documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise CommandError(f"{name}: not YAML: {' '.join(str(error).split())}") from None
        for document in documents:
            items = document.get("items") or [document] if isinstance(document, dict) else []
            found += [one for one in items if isinstance(one, dict) and _is_crd(one)]
    return found


def _is_crd(document: dict[str, Any]) -> bool:
    return document.get("kind") == "CustomResourceDefinition" and document.get("apiVersion") == "apiextensions.k8s.io/v1"


def _written(write: Any, *arguments: Any) -> str:
    """The text of a module.

    Raises:
        CommandError: a definition has not the form of one.
    """
    try:
        text: str = write(*arguments)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CommandError(f"a definition has not the form of one: {type(error).__name__}: {error}") from None
    return text


def _from_cluster(resources: tuple[str, ...], kubeconfig: str | None, context: str | None, *, cluster: str, style: Any) -> str:
    from kcp_py.cli.remote import RemoteServer, load_context
    from kcp_py.library.generation.modules import module_of_crds, module_of_document
    from kcp_py.logicalcluster import parse_name

    try:
        prefix = f"/clusters/{parse_name(cluster)}"
    except ValueError as error:
        raise UsageError(f"--from-cluster: {error}") from None
    with RemoteServer(load_context(kubeconfig, context)) as server:
        defined = _definitions(server, prefix, resources)
        if not resources:
            if not defined:
                raise CommandError(f"the logical cluster {cluster} has no CRDs: name resources, such as configmaps or deployments.apps")
            return _written(module_of_crds, defined, style)
        crds = [crd for crd in defined if crd["metadata"]["name"] in resources]
        others = [one for one in resources if one not in {crd["metadata"]["name"] for crd in crds}]
        parts = [_written(module_of_crds, crds, style)] if crds else []
        if others and crds:
            raise UsageError(f"{', '.join(others)}: not CRDs; write them to a module of their own")
        if not others:
            return parts[0]
        documents: dict[str, Any] = {}
        kinds = [_find(server, prefix, one, documents) for one in others]
        return _written(module_of_document, documents, kinds, style)


def _definitions(server: Any, prefix: str, resources: tuple[str, ...]) -> list[dict[str, Any]]:
    """The CRDs of a logical cluster. Without a permission to list them, those of named resources are not needed: OpenAPI describes them.

    Raises:
        CommandError: no resource is named, and the CRDs cannot be listed.
    """
    try:
        found: list[dict[str, Any]] = server.request("GET", f"{prefix}/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
    except RemoteError as error:
        if error.status not in {403, 404}:
            raise
        if resources:
            return []
        reason = str(error) if error.status == 403 else "the server has no CRDs"
        raise CommandError(
            f"{reason}: name resources, such as configmaps or deployments.apps, to read them from the OpenAPI document"
        ) from None
    return found


def _find(server: Any, prefix: str, resource: str, models: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """A resource as `module_of_document` takes it; its models are added.

    Raises:
        CommandError: the server does not have it.
    """
    plural, _, group = resource.partition(".")
    try:
        version = server.request("GET", f"{prefix}/apis/{group}")["preferredVersion"]["version"] if group else "v1"
        place = f"apis/{group}/{version}" if group else "api/v1"
        served = server.request("GET", f"{prefix}/{place}")["resources"]
    except RemoteError as error:
        if error.status != 404:
            raise
        served = []
    about = next((one for one in served if one["name"] == plural), None)
    if about is None:
        raise CommandError(f"{resource}: the server has no such resource")
    models.update(server.request("GET", f"{prefix}/openapi/v3/{place}")["components"]["schemas"])
    wanted = {"group": group, "version": version, "kind": about["kind"]}
    for name, model in models.items():
        if wanted in (model.get("x-kubernetes-group-version-kind") or ()):
            return name, plural, {**wanted, "namespaced": about["namespaced"]}
    raise CommandError(f"{resource}: the server publishes no schema of it")
