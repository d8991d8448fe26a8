"""An operator for the databases of every team: run with `kopf run --all-namespaces config/samples/multicluster_operator.py`.

It needs `pip install 'kcp-py[kopf]'`, and a kubeconfig of an administrator in $KUBECONFIG.
"""

from __future__ import annotations

from typing import Any

import kopf

from kcp_py.contrib import kopf as multicluster


@kopf.on.login()
def login(**kwargs: Any) -> kopf.AiohttpSession | None:
    return multicluster.connect(kopf.login_with_kubeconfig(**kwargs))


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    multicluster.configure(settings)
    settings.persistence.finalizer = "shop.example.com/operator"


@kopf.on.create("shop.example.com", "v1", "databases")
def created(body: kopf.Body, patch: kopf.Patch, retry: int, **_: Any) -> None:
    if retry == 0:
        raise kopf.TemporaryError("the first attempt fails, to show that it is repeated", delay=0.1)
    patch.metadata.annotations["shop.example.com/state"] = "created"
    kopf.info(body, reason="Created", message=f"created in {multicluster.cluster_of(body)}")


@kopf.on.update("shop.example.com", "v1", "databases", field="spec")
async def updated(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["shop.example.com/state"] = f"updated in {multicluster.current_cluster()}"
    kopf.info(body, reason="Updated", message="the specification has changed")


@kopf.on.delete("shop.example.com", "v1", "databases")
def deleted(name: str, logger: kopf.Logger, **_: Any) -> None:
    logger.info("%s of %s is deleted", name, multicluster.current_cluster())


@kopf.timer("shop.example.com", "v1", "databases", interval=3600)
def checked(patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["shop.example.com/checked-in"] = multicluster.current_cluster()
