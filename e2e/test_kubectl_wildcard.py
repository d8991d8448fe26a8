"""kubectl over all logical clusters: tables with the cluster, and single objects by name."""

from __future__ import annotations

from collections.abc import Callable

from e2e.conftest import Kubectl, ServerProcess
from e2e.informer import configmap, create_definition, definition

GROUP = "everywhere.example.com"
MAPS = "/api/v1/namespaces/default/configmaps"


def printed(text: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in text.splitlines()]


def test_tables_of_all_clusters(kubectl: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """The cluster stands before the name, and the columns are those of all definitions; a watch prints the same columns."""
    specs = {"every-a": ("Size", "integer", 5), "every-b": ("Engine", "string", "postgres")}
    for cluster, (column, kind, value) in specs.items():
        columns = [{"name": column, "type": kind, "jsonPath": f".spec.{column.lower()}"}]
        crd = definition(GROUP, "stores", "Store", {column.lower(): {"type": kind}}, additionalPrinterColumns=columns)
        create_definition(server, cluster, crd)
        store = {"apiVersion": f"{GROUP}/v1", "kind": "Store", "metadata": {"name": "main"}, "spec": {column.lower(): value}}
        assert server.request("POST", f"/clusters/{cluster}/apis/{GROUP}/v1/namespaces/default/stores", store).code == 201
    everywhere = kubectl("*")
    rows = [["default", "every-a", "main", "5"], ["default", "every-b", "main", "postgres"]]
    head = ["NAMESPACE", "CLUSTER", "NAME", "SIZE", "ENGINE"]
    assert printed(everywhere.run("get", "stores", "-A")) == [head, *rows]
    watch = everywhere.start("get", "stores", "-A", "--watch", "--output-watch-events", "--request-timeout=60s")
    try:
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(3)]
        assert printed("".join(lines)) == [["EVENT", *head], *(["ADDED", *row] for row in rows)]
    finally:
        watch.kill()
        watch.communicate()


def test_one_object_of_all_clusters(kubectl: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """get and describe find an object that one cluster has; where several have it they are named."""
    for cluster, name in (("every-a", "lonely"), ("every-a", "shared"), ("every-b", "shared")):
        assert server.request("POST", f"/clusters/{cluster}{MAPS}", configmap(name, {"key": f"from-{cluster}"})).code == 201
    everywhere = kubectl("*")
    assert printed(everywhere.run("get", "configmap", "lonely"))[1][:3] == ["every-a", "lonely", "1"]
    assert "from-every-a" in everywhere.run("describe", "configmap", "lonely")
    refused = everywhere.run("get", "configmap", "shared", fails=True)
    assert "exists in several logical clusters: every-a, every-b" in refused
