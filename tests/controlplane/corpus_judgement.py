"""The results of a control plane with the corpus: every definition and every object, over HTTP in process.

Definitions are created alone, each in a cluster of its own, and all together in one; objects there. Where a definition names a conversion
webhook, which does not run here, the shared cluster gets it with the strategy None.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml
from kcp_py.controlplane import ControlPlane
from tests.corpus import CORPUS, rows
from tests.server.handlers.conftest import Api, options

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TOGETHER: Final = "together"
_YAML: Final = {"Content-Type": "application/yaml"}
_LONGEST_ANSWER: Final = 300


@dataclass(slots=True)
class Judgement:
    """The outcome: how many of each check went as the corpus says, and what did not."""

    agreed: Counter[str] = field(default_factory=Counter)
    exceptions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Check -> path of the file -> the answer."""

    def note(self, check: str, path: str, *, agreed: bool, answer: str) -> None:
        """Count one check of one file."""
        if agreed:
            self.agreed[check] += 1
        else:
            self.exceptions.setdefault(check, {})[path] = answer[:_LONGEST_ANSWER]


def body(path: str) -> bytes:
    """A file of the corpus as a client would send it: without the resourceVersion that some were read with."""
    assert CORPUS is not None
    data = (CORPUS / path).read_bytes()
    if path.endswith(".gz"):
        return gzip.decompress(data)
    return b"".join(line for line in data.splitlines(keepends=True) if not line.startswith(b"  resourceVersion:"))


@asynccontextmanager
async def control_plane(folder: Path) -> AsyncIterator[Api]:
    """A fresh control plane in memory, and its administrator. Owners of objects are not there: nothing is collected in the meantime."""
    async with ControlPlane(options(folder, controllers=("*", "-garbage-collector-controller"))) as running:
        transport = httpx.ASGITransport(running.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, running)


async def judge(api: Api) -> Judgement:
    """Everything."""
    judgement = Judgement()
    run = _Run(api, judgement)
    await run.definitions_alone()
    await run.definitions_together()
    await run.objects()
    await run.pairs()
    return judgement


class _Place(NamedTuple):
    """Where a definition is served for its objects."""

    cluster: str
    crd: dict[str, Any]


class _Run:
    def __init__(self, api: Api, judgement: Judgement) -> None:
        self._api = api
        self._note = judgement.note
        self._places: dict[str, _Place] = {}
        self._namespaces: set[tuple[str, str]] = set()

    async def definitions_alone(self) -> None:
        """Each in a cluster of its own: accepted, established, served; then replaced by its variant."""
        alone: dict[str, str] = {}
        for index, row in enumerate(rows("crds-index.jsonl")):
            path = row["file"]
            if path.startswith("crds-variants"):
                continue
            cluster = f"alone-{index}"
            base = f"/clusters/{cluster}{CRDS}"
            answer = await self._api("POST", base, content=body(path), headers=_YAML)
            check = f"{path.partition('/')[0]}: accepted alone"
            if path.startswith("crds-legacy"):
                self._note("crds-legacy-v1beta1: refused", path, agreed=answer.status_code == 400, answer=answer.text)
                continue
            self._note(check, path, agreed=answer.status_code == 201, answer=answer.text)
            if answer.status_code != 201:
                continue
            alone[row["crd"]] = cluster
            crd = await self._established(cluster, row["crd"])
            if path.startswith("crds-fixtures"):
                self._places[path] = _Place(cluster, crd)
            problem = ""
            for version in _served(crd):
                listed = await self._api("GET", f"/clusters/{cluster}{_prefix(crd, version)}/{crd['spec']['names']['plural']}")
                problem = problem or ("" if listed.status_code == 200 else listed.text)
            self._note(check.replace("accepted", "served in every version"), path, agreed=not problem, answer=problem)
        for row in rows("crds-index.jsonl"):
            path = row["file"]
            if not path.startswith("crds-variants"):
                continue
            url = f"/clusters/{alone[row['crd']]}{CRDS}/{row['crd']}"
            present = (await self._api("GET", url)).json()
            crd = decode_yaml(body(path))
            crd["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"]
            answer = await self._api("PUT", url, crd)
            self._note("crds-variants: accepted as an update", path, agreed=answer.status_code == 200, answer=answer.text)

    async def definitions_together(self) -> None:
        """All in one cluster, all established at once."""
        wanted: dict[str, str] = {}
        for row in rows("crds-index.jsonl"):
            path = row["file"]
            if not path.startswith(("crds/", "crds-huge/")):
                continue
            crd = decode_yaml(body(path))
            crd["spec"].pop("conversion", None)
            answer = await self._api("POST", f"/clusters/{TOGETHER}{CRDS}", crd)
            self._note("crds and crds-huge: accepted together", path, agreed=answer.status_code == 201, answer=answer.text)
            if answer.status_code == 201:
                wanted[row["crd"]] = path
        for name, path in wanted.items():
            self._places[path] = _Place(TOGETHER, await self._established(TOGETHER, name))
            self._note("crds and crds-huge: established together", path, agreed=True, answer="")

    async def _established(self, cluster: str, name: str) -> dict[str, Any]:
        async with asyncio.timeout(60):
            while True:
                crd: dict[str, Any] = (await self._api("GET", f"/clusters/{cluster}{CRDS}/{name}")).json()
                conditions = crd.get("status", {}).get("conditions") or ()
                if any((condition["type"], condition["status"]) == ("Established", "True") for condition in conditions):
                    return crd
                await asyncio.sleep(0)

    async def objects(self) -> None:
        """Every object, in the cluster that has its definition."""
        listed = rows("crs-index.jsonl")
        by_source = {row["source_path"]: row for row in listed}
        for row in self._by_cluster(listed):
            place = self._place(row)
            if place is None:
                continue
            if row.get("update_of"):
                await self._updated(by_source[row["update_of"]], row, place)
            elif row["valid"]:
                await self._accepted(row, place)
            else:
                data = body(row["path"])
                collection = await self._collection(data, place, row["version"])
                answer = await self._api("POST", collection, content=data, headers=_YAML)
                self._judge_refusal(row, answer)
                await self._remove(collection, answer)

    def _by_cluster(self, listed: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Rows in the order of their clusters: the one with all definitions does not fit into the caches together with another."""
        return sorted(listed, key=lambda row: place.cluster if (place := self._places.get(row["crd_file"])) else "")

    def _place(self, row: Mapping[str, Any]) -> _Place | None:
        place = self._places.get(row["crd_file"])
        if place is None:
            self._note("objects: definition present", row["path"], agreed=False, answer=f"{row['crd_file']} was not accepted")
        return place

    async def _accepted(self, row: Mapping[str, Any], place: _Place) -> None:
        path = row["path"]
        folder = path.partition("/")[0]
        data = body(path)
        collection = await self._collection(data, place, row["version"])
        if row.get("unknown_fields"):
            await self._judge_strict(row, collection, data)
        answer = await self._api("POST", collection, content=data, headers=_YAML)
        self._note(f"{folder}: accepted", path, agreed=answer.status_code == 201, answer=answer.text)
        if answer.status_code != 201:
            return
        warning = answer.headers.get("warning", "")
        agreed = ("unknown field" in warning) == bool(row.get("unknown_fields"))
        self._note(f"{folder}: unknown fields warned of as labelled", path, agreed=agreed, answer=warning)
        await self._round_trip(row, place, answer.json())
        await self._remove(collection, answer)

    def _judge_refusal(self, row: Mapping[str, Any], answer: httpx.Response) -> None:
        path = row["path"]
        self._note("crs-invalid: refused", path, agreed=answer.status_code in {400, 422}, answer=answer.text)
        if answer.status_code in {400, 422} and row["expected"] and "offline check" not in row["basis"]:
            message = answer.json()["message"]
            agreed = row["expected"] in message
            self._note("crs-invalid: refused with the message named", path, agreed=agreed, answer=f"{row['expected']} | {message}")

    async def _judge_strict(self, row: Mapping[str, Any], collection: str, data: bytes) -> None:
        answer = await self._api("POST", collection, content=data, headers=_YAML, params={"fieldValidation": "Strict"})
        message = answer.json().get("message", "")
        named = all(f'unknown field "{name.lstrip(".")}' in message for name in row["unknown_fields"])
        # As a real 1.37 server words it for custom resources, too.
        worded = re.match(r'(\S+) in version "\S+" cannot be handled as a \1: strict decoding error: ', message) is not None
        agreed = answer.status_code == 400 and worded and named
        check = "crs-unknown-fields: refused under fieldValidation=Strict, each field named"
        self._note(check, row["path"], agreed=agreed, answer=f"{row['unknown_fields']} | {message}")

    async def _updated(self, before: Mapping[str, Any], row: Mapping[str, Any], place: _Place) -> None:
        data = body(before["path"])
        collection = await self._collection(data, place, row["version"])
        created = await self._api("POST", collection, content=data, headers=_YAML)
        assert created.status_code == 201, (before["path"], created.text)
        obj = decode_yaml(body(row["path"]))
        obj["metadata"]["resourceVersion"] = created.json()["metadata"]["resourceVersion"]
        answer = await self._api("PUT", f"{collection}/{obj['metadata']['name']}", obj)
        if row["valid"]:
            self._note("crs: accepted as an update", row["path"], agreed=answer.status_code == 200, answer=answer.text)
        else:
            self._judge_refusal(row, answer)
        await self._remove(collection, created)

    async def pairs(self) -> None:
        """A create, then an update."""
        for row in self._by_cluster(rows("crs-pairs-index.jsonl")):
            path = row["path"]
            place = self._place(row)
            if place is None:
                continue
            data = body(row["create"])
            collection = await self._collection(data, place, row["version"])
            created = await self._api("POST", collection, content=data, headers=_YAML)
            self._note("crs-pairs: created", path, agreed=created.status_code == 201, answer=created.text)
            if created.status_code != 201:
                continue
            obj = decode_yaml(body(row["update"]))
            obj["metadata"]["resourceVersion"] = created.json()["metadata"]["resourceVersion"]
            target = await self._collection(data, place, row["version_update"])
            answer = await self._api("PUT", f"{target}/{obj['metadata']['name']}", obj)
            self._note("crs-pairs: updated", path, agreed=answer.status_code == 200, answer=answer.text)
            await self._remove(collection, created)

    async def _collection(self, data: bytes, place: _Place, version: str) -> str:
        """The URL that an object is posted to; its namespace exists afterwards."""
        cluster, crd = place
        prefix, plural = f"/clusters/{cluster}{_prefix(crd, version)}", crd["spec"]["names"]["plural"]
        if crd["spec"]["scope"] == "Cluster":
            return f"{prefix}/{plural}"
        try:
            namespace = (decode_yaml(data).get("metadata") or {}).get("namespace") or "default"
        except ValueError:
            namespace = "default"
        if namespace != "default" and (cluster, namespace) not in self._namespaces:
            self._namespaces.add((cluster, namespace))
            obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            answer = await self._api("POST", f"/clusters/{cluster}/api/v1/namespaces", obj)
            assert answer.status_code in {201, 409}, answer.text
        return f"{prefix}/namespaces/{namespace}/{plural}"

    async def _round_trip(self, row: Mapping[str, Any], place: _Place, created: dict[str, Any]) -> None:
        """Read in every served version, and written back as it was read."""
        cluster, crd = place
        served = _served(crd)
        stored = next(version["name"] for version in crd["spec"]["versions"] if version["storage"])
        namespace = created["metadata"].get("namespace")
        scope = f"/namespaces/{namespace}" if namespace else ""
        problem = ""
        for version in served:
            url = f"/clusters/{cluster}{_prefix(crd, version)}{scope}/{crd['spec']['names']['plural']}/{created['metadata']['name']}"
            read = await self._api("GET", url)
            if read.status_code != 200:
                problem = problem or f"GET {version}: {read.text}"
                continue
            # Another version may know fewer fields: what both have is the same.
            same = _content(read.json()) == _content(created) if version == row["version"] == stored else _within(read.json(), created)
            if not same:
                problem = problem or f"GET {version}: other values: {read.text}"
            written = await self._api("PUT", url, read.json(), params={"dryRun": "All"})
            if written.status_code != 200:
                problem = problem or f"PUT {version}: {written.text}"
            elif version == stored and written.json() != read.json():
                problem = problem or f"PUT {version}: not what was read: {written.text}"
        check = f"{row['path'].partition('/')[0]}: round trip through every served version"
        self._note(f"{check} ({'one' if len(served) == 1 else 'several'})", row["path"], agreed=not problem, answer=problem)

    async def _remove(self, collection: str, created: httpx.Response) -> None:
        if created.status_code != 201:
            return
        url = f"{collection}/{created.json()['metadata']['name']}"
        if created.json()["metadata"].get("finalizers"):
            await self._api.ok("PATCH", url, {"metadata": {"finalizers": None}}, headers={"Content-Type": "application/merge-patch+json"})
        await self._api.ok("DELETE", url)


def _prefix(crd: Mapping[str, Any], version: str) -> str:
    group = crd["spec"]["group"]
    return f"/apis/{group}/{version}"


def _served(crd: Mapping[str, Any]) -> list[str]:
    return [version["name"] for version in crd["spec"]["versions"] if version["served"]]


def _content(obj: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in obj.items() if name not in {"apiVersion", "metadata"}}


def _within(part: Any, whole: Any) -> bool:
    """Whether everything that both have is the same, but for the version."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(_within(value, whole[name]) for name, value in part.items() if name in whole and name != "apiVersion")
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(_within, part, whole))
    return bool(part == whole)
