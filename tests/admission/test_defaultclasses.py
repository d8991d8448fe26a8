"""Claims, ingresses and services follow the classes of their cluster. Messages are recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.defaultclasses import parse_ingress_class, parse_storage_class
from tests.admission.serving import CLUSTER, CORE, serving
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

CLASSES = f"{CLUSTER}/apis/storage.k8s.io/v1/storageclasses"
INGRESS_CLASSES = f"{CLUSTER}/apis/networking.k8s.io/v1/ingressclasses"
CLAIMS = f"{CORE}/namespaces/default/persistentvolumeclaims"
INGRESSES = f"{CLUSTER}/apis/networking.k8s.io/v1/namespaces/default/ingresses"
SERVICES = f"{CORE}/namespaces/default/services"
IS_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def claim(name: str, size: str = "1Gi", annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": {**storage, **spec}}


def storage_class(name: str, default: str = "true", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {IS_DEFAULT: default}}, "provisioner": "p", **fields}


async def class_of(api: Api, obj: dict[str, Any]) -> str | None:
    """The class of a claim, created without being stored."""
    made = await api.ok("POST", CLAIMS, obj, params={"dryRun": "All"})
    found: str | None = made["spec"].get("storageClassName")
    return found


async def test_a_claim_gets_the_default_class(tmp_path: Path) -> None:
    """Unless it names a class, an empty one included, in its specification or in the old annotation."""
    async with serving(tmp_path, "persistentvolumeclaims", "storageclasses") as api:
        assert await class_of(api, claim("c")) is None
        await api.ok("POST", CLASSES, storage_class("other", "false"))
        assert await class_of(api, claim("c")) is None
        await api.ok("POST", CLASSES, storage_class("b"))
        assert await class_of(api, claim("c")) == "b"
        assert await class_of(api, claim("c", storageClassName="")) == ""
        assert await class_of(api, claim("c", storageClassName="other")) == "other"
        assert await class_of(api, claim("c", annotations={"volume.beta.kubernetes.io/storage-class": "x"})) is None


async def test_an_ingress_gets_the_default_class(tmp_path: Path) -> None:
    """Unless it names a class, in its specification or in the old annotation."""
    async with serving(tmp_path, "ingresses", "ingressclasses") as api:
        spec = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
        annotations = {"ingressclass.kubernetes.io/is-default-class": "true"}
        await api.ok("POST", INGRESS_CLASSES, {"metadata": {"name": "i", "annotations": annotations}, "spec": {"controller": "a.b/c"}})
        made = await api.ok("POST", INGRESSES, {"metadata": {"name": "a"}, "spec": spec})
        assert made["spec"]["ingressClassName"] == "i"
        made = await api.ok("POST", INGRESSES, {"metadata": {"name": "b"}, "spec": {**spec, "ingressClassName": "j"}})
        assert made["spec"]["ingressClassName"] == "j"
        old = {"kubernetes.io/ingress.class": "k"}
        made = await api.ok("POST", INGRESSES, {"metadata": {"name": "c", "annotations": old}, "spec": spec})
        assert "ingressClassName" not in made["spec"]


def test_only_default_classes_count_and_the_newest_first() -> None:
    """By the time of their creation; the beta annotation counts for storage."""
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}
    assert parse_storage_class({"metadata": metadata}) == 1767225600
    assert parse_storage_class({"metadata": {**metadata, "annotations": {IS_DEFAULT: "True"}}}) is None
    assert parse_ingress_class({"metadata": metadata}) is None


async def test_a_claim_grows_where_its_class_lets_it(tmp_path: Path) -> None:
    """Once it is bound. A smaller claim is not the plugin's affair."""
    async with serving(tmp_path, "persistentvolumeclaims", "storageclasses") as api:
        await api.ok("POST", CLASSES, storage_class("fixed", "false"))
        await api.ok("POST", CLASSES, storage_class("growing", "false", allowVolumeExpansion=True))
        for name, message in (
            ("fixed", "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"),
            ("growing", ""),
        ):
            made = await api.ok("POST", CLAIMS, claim(name, storageClassName=name))
            larger = {**made["spec"], "resources": {"requests": {"storage": "2Gi"}}}
            refused = await api("PUT", f"{CLAIMS}/{name}", {**made, "spec": larger})
            assert refused.status_code in {403, 422}  # kube-apiserver's validation refuses it before this plugin does
            head = f'persistentvolumeclaims "{name}" is forbidden'
            bound = await api.ok("PUT", f"{CLAIMS}/{name}/status", {**made, "status": {"phase": "Bound"}})
            answer = await api("PUT", f"{CLAIMS}/{name}", {**bound, "spec": larger})
            if message:
                assert (answer.status_code, answer.json()["message"]) == (403, f"{head}: {message}")
            else:
                assert answer.json()["spec"]["resources"]["requests"]["storage"] == "2Gi"


async def test_external_addresses_are_denied_where_that_is_enabled(tmp_path: Path) -> None:
    """A service keeps those that it has."""
    spec = {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}
    async with serving(tmp_path, "services", enable_admission_plugins=("DenyServiceExternalIPs",)) as api:
        refused = await api("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})
        message = 'services "s" is forbidden: Use of external IPs is denied by admission control'
        assert (refused.status_code, refused.json()["message"]) == (403, message)
        await api.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}})
    async with serving(tmp_path, "services") as api:
        await api.ok("POST", SERVICES, {"metadata": {"name": "s"}, "spec": spec})
