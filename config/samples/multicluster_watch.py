"""A controller without a framework: writes a config map for each database of every team.

It needs `pip install kubernetes`, and a kubeconfig of an administrator in $KUBECONFIG. Stop it with Ctrl-C.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from kubernetes import client, config, watch

CLUSTER = "kcp.io/cluster"


@cache
def client_of(cluster: str) -> Any:
    """A client for one logical cluster, or for all of them with `*`."""
    settings = client.Configuration.get_default_copy()
    settings.host = settings.host.partition("/clusters/")[0] + f"/clusters/{cluster}"
    return client.ApiClient(settings)


def reconcile(database: dict[str, Any]) -> None:
    metadata = database["metadata"]
    core = client.CoreV1Api(client_of(metadata["annotations"][CLUSTER]))
    wanted = {"metadata": {"name": f"about-{metadata['name']}"}, "data": {key: str(value) for key, value in database["spec"].items()}}
    try:
        core.create_namespaced_config_map(metadata["namespace"], wanted)
    except client.ApiException as error:
        if error.status != 409:
            raise
        core.patch_namespaced_config_map(wanted["metadata"]["name"], metadata["namespace"], wanted)


def main() -> None:
    config.load_kube_config()
    databases = client.CustomObjectsApi(client_of("*")).list_cluster_custom_object
    while True:
        # The server ends a watch after a while. A watch without a revision begins with the objects that exist.
        for event in watch.Watch().stream(databases, "shop.example.com", "v1", "databases"):
            if event["type"] != "DELETED":
                reconcile(event["object"])


if __name__ == "__main__":
    main()
