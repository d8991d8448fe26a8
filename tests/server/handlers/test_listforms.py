"""Lists in protobuf and of metadata have the contents of lists whose objects are decoded one by one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.store import rendered
from kcp_py.server.handlers import list as handler
from kcp_py.server.handlers.listforms import form_of
from kcp_py.server.negotiation import Representation
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES
from tests.server.handlers.conftest import Api, config_map, options

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ACCEPTED = (PROTOBUF, f"{PROTOBUF};{METADATA}", f"application/json;{METADATA}", f"application/json;{METADATA.replace('v1', 'v1beta1')}")
ODD = {"a/b": '{"labels":{}}', "c": '"metadata":{"x":"\\"}}}', "d": "ä🙂\n"}


@pytest.fixture
async def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    monkeypatch.setattr(rendered, "_READ", 3)
    monkeypatch.setattr(rendered, "_LEAST_KEPT", 1)
    async with (
        ControlPlane(replace(options(tmp_path), storage="sqlite")) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def _listed(api: Api, path: str, accept: str, params: dict[str, str]) -> tuple[list[Any], list[int]]:
    """All pages, with their remaining counts."""
    pages: list[Any] = []
    while True:
        response = await api("GET", path, headers={"Accept": accept}, params=params)
        assert response.status_code == 200
        if accept.startswith(PROTOBUF):
            assert response.headers["content-type"] == PROTOBUF
            return [response.content], []
        page = response.json()
        pages.append(page)
        token = page["metadata"].get("continue", "")
        if not token:
            return [page["items"] for page in pages], [page["metadata"].get("remainingItemCount", 0) for page in pages]
        params = {**params, "continue": token}


@pytest.mark.anyio
async def test_every_form_has_the_contents_of_decoded_objects(stored: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, selected, in pages, at an older revision, with default objects, after writes and again; also of another cluster."""
    selections: list[dict[str, str]] = [
        {},
        {"labelSelector": "tier=gold"},
        {"labelSelector": "tier!=gold"},
        {"labelSelector": "tier=none"},
        {"limit": "2"},
        {"limit": "2", "labelSelector": "tier"},
        {"fieldSelector": "metadata.name=m1"},
    ]
    paths = [
        MAPS,
        "/clusters/a/api/v1/configmaps",
        "/clusters/a/api/v1/namespaces",
        MAPS.replace("/a/", "/b/"),
        "/clusters/*/api/v1/configmaps",
    ]

    async def put(number: int) -> None:
        labels = {"tier": ("gold", "tin")[number % 2]} if number % 3 else {}
        body = config_map(f"m{number}", {f"k{at}": str(ODD) for at in range(number)}, labels=labels, annotations=ODD if number % 2 else {})
        for cluster in "ab" if number % 4 else "a":
            await stored.ok("POST", MAPS.replace("/a/", f"/{cluster}/"), body)

    await asyncio.gather(*(put(number) for number in range(10)))
    then = (await stored.ok("GET", MAPS))["metadata"]["resourceVersion"]
    selections.append({"resourceVersion": then, "resourceVersionMatch": "Exact"})
    for change in (None, "PUT", "DELETE"):
        if change == "PUT":
            await stored.ok("PUT", f"{MAPS}/m4", config_map("m4", {"new": "x"}, labels={"tier": "gold"}))
        elif change == "DELETE":
            await stored.ok("DELETE", f"{MAPS}/m5")
        for path in paths:
            for accept in ACCEPTED:
                for params in selections:
                    found = [await _listed(stored, path, accept, params) for _ in range(2)]
                    with monkeypatch.context() as context:
                        context.setattr(handler, "form_of", lambda *_: None)
                        expected = await _listed(stored, path, accept, params)
                    if accept.startswith(PROTOBUF) and "limit" in params:
                        # Continue tokens differ. Pages are compared in JSON.
                        assert len(found[0][0][0]) == len(expected[0][0])
                        continue
                    assert found == [expected, expected], (path, accept, params)


@pytest.mark.anyio
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.text('{}[]"\\:, aä', max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('{}"\\a', max_size=3), inner, max_size=3),
        max_leaves=12,
    ),
    st.integers(0, 40),
    st.booleans(),
)
async def test_metadata_is_cut_out_of_any_object(value: Any, depth: int, typed: bool) -> None:  # noqa: FBT001
    """Whatever it holds, and however deep."""
    for _ in range(depth):
        value = {"f": value}
    obj: dict[str, Any] = {"metadata": {"resourceVersion": "1", "name": "x", "value": value}, "data": {"}": '{"metadata":{}}'}}
    obj = obj if typed else {"apiVersion": "v1", "kind": "Thing", **obj}
    form = form_of(CONFIG_MAPS.resource, Representation("json", "PartialObjectMetadataList", "v1"))
    assert form is not None
    assert await form.elements([orjson.dumps(obj)]) == [orjson.dumps(partial_object_metadata(obj))]


def test_forms_have_keys_of_their_own() -> None:
    """Bytes of one form are never answered as another one. Tables, YAML and indented JSON have no kept form."""
    resources = CONFIG_MAPS.resource, NAMESPACES.resource
    representations = [
        Representation("protobuf"),
        *(Representation(media, "PartialObjectMetadataList", version) for media in ("json", "protobuf") for version in ("v1", "v1beta1")),
    ]
    for resource in resources:
        forms = [form_of(resource, representation) for representation in representations]
        assert len({form.key for form in forms if form is not None}) == len(representations)
        others = [Representation(), Representation("yaml"), Representation("json", pretty=True), Representation("json", "Table", "v1")]
        assert [form_of(resource, other) for other in others] == [None] * 4
