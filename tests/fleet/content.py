"""What each logical cluster of a fleet contains, and the requests that create it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.benchmarks.load import Result, Target, run
from tests.benchmarks.objects import COLUMNS, GROUP, crd_body, gadget

_CONNECTIONS: Final = 16
SMALL_GROUP: Final = "fleet.example"


@dataclass(frozen=True)
class Content:
    """So many CRDs, and so many objects that are spread over them in turns."""

    crds: int
    objects: int
    realistic: bool = False
    """CRDs with a schema of five fields and printer columns, and objects of 1 KB; otherwise both are as small as they can be."""

    @property
    def group(self) -> str:
        """The API group of the CRDs."""
        return GROUP if self.realistic else SMALL_GROUP

    def plural(self, number: int) -> str:
        """The resource of one of the CRDs."""
        return f"gadget{number}s" if self.realistic else f"g{number}s"

    def path(self, cluster: str, number: int) -> str:
        """The collection of one resource, in one cluster (`*`: in all)."""
        namespace = "" if cluster == "*" else "/namespaces/default"
        return f"/clusters/{cluster}/apis/{self.group}/v1{namespace}/{self.plural(number)}"

    def crd(self, number: int) -> bytes:
        """The body of a CRD."""
        plural = self.plural(number)
        if self.realistic:
            return crd_body(plural, self.group, columns=COLUMNS)
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": plural, "kind": f"G{number}"}
        return _json(
            apiVersion="apiextensions.k8s.io/v1",
            kind="CustomResourceDefinition",
            metadata={"name": f"{plural}.{self.group}"},
            spec={"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]},
        )

    def object(self, number: int, name: str) -> bytes:
        """The body of an object of one of the resources."""
        if self.realistic:
            return gadget(name, self.plural(number).removesuffix("s").capitalize())
        return _json(apiVersion=f"{self.group}/v1", kind=f"G{number}", metadata={"name": name}, spec={"size": 3})


def _json(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


async def create_clusters(target: Target, names: Sequence[str], content: Content) -> tuple[Result, Result, Result]:
    """Create clusters with their content by requests: first the clusters, then the CRDs, then the objects."""
    body = _json(apiVersion="core.kcp.io/v1alpha1", kind="LogicalCluster", metadata={"name": "cluster"})

    def clusters() -> Iterator[tuple[bytes, bytes]]:
        for name in names:
            yield target.head("POST", f"/clusters/{name}/apis/core.kcp.io/v1alpha1/logicalclusters", len(body)), body

    def crds() -> Iterator[tuple[bytes, bytes]]:
        bodies = [content.crd(number) for number in range(content.crds)]
        for name in names:
            path = f"/clusters/{name}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            for one in bodies:
                yield target.head("POST", path, len(one)), one

    def objects() -> Iterator[tuple[bytes, bytes]]:
        for name in names:
            for at in range(content.objects if content.crds else 0):
                number = at % content.crds
                one = content.object(number, f"o{at // content.crds}")
                yield target.head("POST", content.path(name, number), len(one)), one

    made = await run(target, clusters(), connections=_CONNECTIONS, expect=b" 201 ")
    defined = await run(target, crds(), connections=_CONNECTIONS, expect=b" 201 ")
    for name in names if content.crds else ():
        for number in range(content.crds):
            await _served(target, content.path(name, number))
    filled = await run(target, objects(), connections=_CONNECTIONS, expect=b" 201 ")
    return made, defined, filled


async def _served(target: Target, path: str) -> None:
    while b" 200 " not in (await target.one("GET", f"{path}?limit=1"))[:16]:
        await asyncio.sleep(0.01)
