"""Bodies of objects, their paths, and streams of requests for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.benchmarks.load import Target

GROUP = "bench.example.com"
KILOBYTE = "x" * 700


COLUMNS = (
    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    {"name": "Image", "type": "string", "jsonPath": ".spec.image"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
)


def crd_body(plural: str = "gadgets", group: str = GROUP, *, rules: int = 0, columns: Sequence[Mapping[str, str]] = ()) -> bytes:
    """A CRD of ordinary size, with so many CEL rules."""
    properties = {
        "replicas": {"type": "integer", "minimum": 0},
        "image": {"type": "string", "pattern": "^[a-z0-9./:-]+$"},
        "mode": {"type": "string", "enum": ["fast", "safe"], "default": "safe"},
        "text": {"type": "string", "maxLength": 4096},
        "ports": {
            "type": "array",
            "items": {"type": "object", "required": ["port"], "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
        },
    }
    spec: dict[str, Any] = {"type": "object", "required": ["image"], "properties": properties}
    if rules:
        texts = (
            "self.replicas <= {n} + 100",
            "self.image.startsWith('registry') || {n} < 0",
            "!has(self.mode) || self.mode != 'never-{n}'",
        )
        spec["x-kubernetes-validations"] = [{"rule": texts[n % len(texts)].format(n=n)} for n in range(rules)]
    schema = {
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": spec,
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        },
    }
    kind = plural.removesuffix("s").capitalize()
    version: dict[str, Any] = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    if columns:
        version["additionalPrinterColumns"] = columns
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [version]},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def gadget(name: str, kind: str = "Gadget") -> bytes:
    """A custom resource of about 1 KB."""
    spec = {"replicas": 3, "image": "registry.example.com/app:1", "ports": [{"name": "http", "port": 80}], "text": KILOBYTE}
    body = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name, "labels": {"app": "bench"}}, "spec": spec}
    return json.dumps(body, separators=(",", ":")).encode()


def gadgets(cluster: str, plural: str = "gadgets") -> str:
    return f"/clusters/{cluster}/apis/{GROUP}/v1/namespaces/default/{plural}"


async def install(
    target: Target, cluster: str, plural: str = "gadgets", *, rules: int = 0, columns: Sequence[Mapping[str, str]] = ()
) -> None:
    """Create the CRD and wait until its resource is served."""
    body = crd_body(plural, rules=rules, columns=columns)
    await target.one("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    while b" 200 " not in (await target.one("GET", gadgets(cluster, plural)))[:16]:
        await asyncio.sleep(0.01)


def creates(target: Target, path: str, names: Iterator[str], make: Callable[[str], bytes] = gadget) -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        body = make(name)
        yield target.head("POST", path, len(body)), body


def repeated(head: bytes, count: int) -> Iterator[tuple[bytes, bytes]]:
    return ((head, b"") for _ in range(count))


def config_map(name: str, text: str = "") -> bytes:
    return json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}}, separators=(",", ":")
    ).encode()


async def revision(target: Target, cluster: str = "a") -> str:
    answer = await target.one("GET", f"/clusters/{cluster}/api/v1/configmaps")
    return answer.partition(b'"resourceVersion":"')[2].partition(b'"')[0].decode()
