"""A CRD that is recognized by its bytes is what parsing it gives; nothing that a tenant writes is taken for something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from kcp_py.registry.catalog.compilation import CompiledCRD, CompiledCRDs
from kcp_py.registry.catalog.recognition import KnownDefinitions
from kcp_py.registry.rendering import encode_stored
from tests.client.registry import ROOT, make_crd
from tests.registry.conftest import stored

pytestmark = pytest.mark.anyio

NAME = "widgets.example.com"


def crd(uid: str = "1", time: str = "2026-11-27T10:00:00Z", *, schema: Mapping[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A CRD as the server stores it."""
    obj = stored(make_crd(), uid=uid, creationTimestamp=time, **metadata)
    for condition in obj["status"]["conditions"]:
        condition |= {"lastTransitionTime": time, "reason": "NoConflicts", "message": 'no "conflicts" found'}
    if schema is not None:
        obj["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return obj


class Loader:
    """CRDs that are compiled, and recognized from then on."""

    def __init__(self) -> None:
        self.compiled = CompiledCRDs(ROOT)
        self.known = KnownDefinitions()
        self.kept: list[CompiledCRD] = []

    async def parsed(self, value: bytes) -> CompiledCRD | None:
        return (await self.compiled.load(value)).compiled

    async def learn(self, obj: Mapping[str, Any]) -> CompiledCRD:
        value = encode_stored(dict(obj))
        compiled = await self.parsed(value)
        assert compiled is not None
        self.kept.append(compiled)
        self.known.learn(NAME, value, compiled)
        return compiled

    async def check(self, value: bytes) -> CompiledCRD | None:
        """The compiled form that is found, which must be that of parsing."""
        found = self.known.find(NAME, value)
        assert found is None or found is await self.parsed(value)
        return found


@pytest.fixture
def loader() -> Loader:
    return Loader()


async def test_copies_are_recognized(loader: Loader) -> None:
    """Uids, times and other metadata differ between clusters."""
    compiled = await loader.learn(crd())
    managed = [{"manager": "m", "operation": "Update", "subresource": "status", "fieldsV1": {"f:spec": {"f:group": {}}, "f:status": {}}}]
    for obj in (
        crd(),
        crd("2", "2020-01-01T00:00:00Z"),
        crd("3", generation=7, annotations={"a": '},"spec":{"group":"x"},"status":{'}, managedFields=managed),
        crd("4", labels={"spec": "spec"}, time="2020-01-01T00:00:00.123456Z"),
    ):
        assert await loader.check(encode_stored(obj)) is compiled
    assert loader.known.find("others.example.com", encode_stored(crd())) is None


def _terminating(obj: dict[str, Any]) -> None:
    obj["metadata"]["deletionTimestamp"] = "2026-11-27T10:00:00Z"


def _other_schema(obj: dict[str, Any]) -> None:
    obj["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}


def _other_condition(obj: dict[str, Any]) -> None:
    obj["status"]["conditions"][1]["status"] = "False"


def _condition_more(obj: dict[str, Any]) -> None:
    obj["status"]["conditions"].append({"type": "Terminating", "status": "True", "lastTransitionTime": "2026-11-27T10:00:00Z"})


def _other_names(obj: dict[str, Any]) -> None:
    obj["status"]["acceptedNames"] = {**obj["status"]["acceptedNames"], "shortNames": ["w"]}


def _no_status(obj: dict[str, Any]) -> None:
    del obj["status"]


def _status_first(obj: dict[str, Any]) -> None:
    status, spec = obj.pop("status"), obj.pop("spec")
    obj |= {"status": {**status, "acceptedNames": {"plural": "widgets", "kind": "Other"}}, "spec": spec}


def _another_kind(obj: dict[str, Any]) -> None:
    obj["apiVersion"] = "apiextensions.k8s.io/v2"


@pytest.mark.parametrize(
    "change",
    [_terminating, _other_schema, _other_condition, _condition_more, _other_names, _no_status, _status_first, _another_kind],
    ids=lambda change: change.__name__,
)
async def test_what_serves_something_else_is_parsed(loader: Loader, change: Callable[[dict[str, Any]], None]) -> None:
    """Each part on which serving depends counts, wherever it is in the document."""
    await loader.learn(crd())
    obj = crd("2")
    change(obj)
    assert await loader.check(encode_stored(obj)) is None


TIME = "2026-11-27T10:00:00Z"
INJECTED = f'{TIME}","reason":"x'


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"a": '"},"spec":{'}},
        {"annotations": {"a": "\\"}, "labels": {"spec": "x"}},
        {"managedFields": [{"fieldsV1": {"spec": {}}}]},
        {"managedFields": [{"fieldsV1": {"x": {}, "spec": {}, "status": {}}}]},
        {"managedFields": [{"fieldsV1": {"deletionTimestamp": "x"}}]},
        {"managedFields": [{"fieldsV1": crd()}]},
        {"managedFields": [{"fieldsV1": {"metadata": {}, "spec": crd()["spec"], "status": crd()["status"]}}]},
        {"annotations": {"a": '"deletionTimestamp":'}},
    ],
)
async def test_metadata_of_tenants(loader: Loader, metadata: Mapping[str, Any]) -> None:
    """Documents within metadata are not taken for those of the CRD, neither when they are learnt nor when they are looked for."""
    compiled = await loader.learn(crd())
    assert await loader.check(encode_stored(crd("2", **metadata))) in {None, compiled}
    other = Loader()
    await other.learn(crd("2", **metadata))
    for obj in (crd(), crd("3", **metadata), crd("4", schema={"type": "object"}), crd("5", schema={"type": "object"}, **metadata)):
        await other.check(encode_stored(obj))


@pytest.mark.parametrize("time", [INJECTED, "", "\\", '"', "2026\n", "é" * 30, '},"spec":{'])
async def test_times_of_conditions(loader: Loader, time: str) -> None:
    """Whatever text is in the place of a time, the document is what it says."""
    await loader.learn(crd())
    await loader.check(encode_stored(crd("2", time)))
    other = Loader()
    await other.learn(crd("2", time))
    for obj in (crd(), crd("3", INJECTED), crd("4", time)):
        await other.check(encode_stored(obj))


async def test_texts_in_schemas_that_look_like_a_status(loader: Loader) -> None:
    """Only the status of the document has times that do not count."""
    properties = {"properties": {"status": {"type": "object", "default": {"conditions": [{"lastTransitionTime": TIME}]}}}}
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "description": orjson.dumps(crd()).decode()}
    first, second = {**schema, **properties}, orjson.loads(orjson.dumps({**schema, **properties}).replace(TIME.encode(), b"1" * len(TIME)))
    compiled = await loader.learn(crd(schema=first))
    assert await loader.check(encode_stored(crd("2", schema=first))) is compiled
    assert await loader.check(encode_stored(crd("2", schema=second))) is None


async def test_damaged_bytes_are_not_recognized(loader: Loader) -> None:
    """A value with a byte more or less behind its metadata is parsed."""
    await loader.learn(crd())
    value = encode_stored(crd("2"))
    begin = value.index(b'},"spec":{') + 1
    for at in range(begin, len(value), 7):
        if b'"lastTransitionTime":"' in value[max(begin, at - 42) : at + 1]:
            continue
        assert loader.known.find(NAME, value[:at] + value[at + 1 :]) is None
        assert loader.known.find(NAME, value[:at] + b" " + value[at:]) is None
    for other in (b"", b"{", value + b"}", value + b" "):
        assert loader.known.find(NAME, other) is None


async def test_it_is_bounded_and_keeps_nothing_alive(loader: Loader) -> None:
    """Forms that are used last stay; a compiled form that nothing uses any more is forgotten."""
    objs = [crd(schema={"type": "object", "description": str(number)}) for number in range(20)]
    found = [await loader.learn(obj) for obj in objs]
    known = [loader.known.find(NAME, encode_stored(obj)) for obj in objs]
    assert known[-8:] == found[-8:]
    assert not any(known[:12])
    loader.kept.clear()
    del found, known
    assert loader.known.find(NAME, encode_stored(objs[-1])) is None
    big = crd(schema={"type": "object", "description": "x" * 200_000})
    for number in range(40):
        big["spec"]["names"]["singular"] = f"s{number}"
        value = encode_stored(big)
        compiled = await loader.parsed(value)
        assert compiled is not None
        loader.known.learn(f"{number}.example.com", value, compiled)
        loader.kept.append(compiled)
    assert sum(loader.known.find(f"{number}.example.com", encode_stored(big)) is not None for number in range(40)) <= 1
    assert loader.known._bytes <= 4 << 20
