"""Rows about types of a program: their definition and requests, compared with a CRD of the same shape, in this process."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import BaseModel, Field

from kcp_py import ControlPlane, GroupVersionResource, Options, Schema, errors, parse_name, resource
from kcp_py.library.types.resource import stored_resource
from kcp_py.logicalcluster import Name
from tests.benchmarks.row import Row

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CLUSTER = parse_name("bench")
_WANTED = "<= 1.1x"
_ROUNDS = 30
_PER_ROUND = 40
_DEFINITIONS = 25


class Part(BaseModel):
    """A part."""

    name: str
    size: Annotated[int, Field(ge=0, le=100)] = 1


class Spec(BaseModel):
    """The specification."""

    message: Annotated[str, Field(min_length=1, max_length=4000)]
    replicas: int = 1
    parts: Annotated[list[Part], Schema(list_type="map", list_map_keys=["name"])] = []
    labels: dict[str, str] = {}


def _class(group: str) -> type:
    return resource(group=group, version="v1")(type("Thing", (BaseModel,), {"__annotations__": {"spec": Spec}, "__module__": __name__}))


def _body(group: str, name: str) -> dict[str, Any]:
    parts = [{"name": f"part{number}", "size": number} for number in range(8)]
    spec = {"message": "x" * 600, "parts": parts, "labels": {f"key{number}": "value" for number in range(8)}}
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def _established(control_plane: ControlPlane, crd: dict[str, Any], things: GroupVersionResource) -> None:
    """Create a CRD, and ask until its resource is served."""
    await control_plane.client.create(CLUSTER, CRDS, crd)
    while True:
        try:
            await control_plane.client.list(CLUSTER, things)
        except errors.StatusError:
            await asyncio.sleep(0)
            continue
        return


def _requests(
    control_plane: ControlPlane, cluster: Name, things: GroupVersionResource
) -> Iterator[tuple[str, Callable[[int], Awaitable[Any]]]]:
    client = control_plane.client
    body = _body(things.group, "one")

    async def create(number: int) -> None:
        await client.create(cluster, things, {**body, "metadata": {"name": f"n{number}", "namespace": "default"}})

    async def update(number: int) -> None:
        found = await client.get(cluster, things, "default", f"n{number}")
        await client.update(cluster, things, {**found, "spec": {**found["spec"], "replicas": number + 2}})

    async def get(number: int) -> None:
        await client.get(cluster, things, "default", f"n{number}")

    async def list_all(number: int) -> None:
        del number
        await client.list(cluster, things, "default")

    yield from (("create", create), ("update", update), ("get", get), ("list of 1,200", list_all))


async def types_row(directory: Path) -> AsyncIterator[Row]:
    """Definition, and create, get, list and update through the in-process client. Rounds of both alternate."""
    typed, plain = GroupVersionResource("typed.example.com", "v1", "things"), GroupVersionResource("plain.example.com", "v1", "things")
    options = Options(storage="memory", root_directory=directory / "types")
    async with ControlPlane(options, apis=[_class(typed.group)]) as control_plane:
        ours, theirs = [], []
        for number in range(_DEFINITIONS):
            group = f"g{number}.example.com"
            start = time.perf_counter()
            definition = stored_resource(_class(group))
            definition.served_versions("/registry")
            ours.append(time.perf_counter() - start)
            crd = definition.definition()
            start = time.perf_counter()
            await _established(control_plane, crd, GroupVersionResource(group, "v1", "things"))
            theirs.append(time.perf_counter() - start)
        yield _row("definition of a type, until it is served", ours, theirs)
        await _established(control_plane, stored_resource(_class(plain.group)).definition(), plain)
        pairs = zip(_requests(control_plane, CLUSTER, typed), _requests(control_plane, CLUSTER, plain), strict=True)
        for (name, mine), (_, other) in pairs:
            ours, theirs = [], []
            times = 1 if name.startswith("list") else _PER_ROUND
            for one_round in range(_ROUNDS):
                for request, found in ((mine, ours), (other, theirs)) if one_round % 2 else ((other, theirs), (mine, ours)):
                    gc.collect()
                    start = time.process_time()
                    for number in range(one_round * times, (one_round + 1) * times):
                        await request(number)
                    found.append((time.process_time() - start) / times)
            yield _row(f"{name}, of a type", ours, theirs)


def _row(work: str, ours: list[float], theirs: list[float]) -> Row:
    mine, other = median(ours), median(theirs)
    return Row(f"{work}, against a CRD", f"{mine * 1e6:,.0f} us", f"{other * 1e6:,.0f} us", f"{mine / other:.2f}x", _WANTED)


TYPE_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {"types": types_row}
