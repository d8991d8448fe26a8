from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.server.encoding import ListEncoding, encode, encode_offloaded
from kcp_py.server.negotiation import Representation

ITEMS: list[dict[str, Any]] = [
    {"metadata": {"name": "a", "labels": {"yes": "no"}}, "data": {"script": "one\n  two\n", "empty": "", "long": "word " * 40}},
    {"metadata": {"name": "b"}, "data": {"quote": 'say "x"', "tab": "\t", "number": "012", "nl": "\\n\n"}},
    {"metadata": {"name": "c"}},
]
FORMS = [
    pytest.param(Representation("json"), id="JSON"),
    pytest.param(Representation("json", pretty=True), id="indented JSON"),
    pytest.param(Representation("yaml"), id="YAML"),
    pytest.param(Representation("protobuf"), id="protobuf"),
]


@pytest.mark.parametrize("representation", FORMS)
@pytest.mark.parametrize("count", [0, 1, 3])
def test_lists(representation: Representation, count: int) -> None:
    """A list that was written element by element is what it would be when written at once."""
    head = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7", "continue": "token"}}
    encoding = ListEncoding(representation, "v1", "ConfigMapList", "ConfigMap")
    written = b"".join(encoding.whole(head, [encoding.element(item) for item in ITEMS[:count]]))
    assert written == encode({**head, "items": ITEMS[:count]}, representation)


@pytest.mark.parametrize("media", ["json", "yaml"])
@pytest.mark.parametrize("pretty", [False, True])
def test_tables(media: Any, pretty: bool) -> None:  # noqa: FBT001
    """Rows stand behind everything else of a table."""
    representation = Representation(media, "Table", "v1", pretty and media == "json")
    head = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": [{"name": "Name"}]}
    rows: list[dict[str, Any]] = [{"cells": ["a", 1, None], "object": None}, {"cells": [[], {}], "object": {"metadata": {"name": "b"}}}]
    encoding = ListEncoding(representation, "meta.k8s.io/v1", "Table", "")
    assert b"".join(encoding.whole(head, [encoding.element(row) for row in rows])) == encode({**head, "rows": rows}, representation)


@pytest.mark.anyio
@pytest.mark.parametrize("representation", FORMS)
async def test_large_documents(representation: Representation) -> None:
    """Encoding in a thread gives the same bytes as encoding on the event loop."""
    document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v" * 600_000}}
    assert await encode_offloaded(document, representation) == encode(document, representation)
    encoding = ListEncoding(representation, "v1", "ConfigMapList", "ConfigMap")
    assert await encoding.element_offloaded(document, 600_000) == encoding.element(document)


def test_misfits() -> None:
    """What has no place in a message is an error and no wrong answer."""
    protobuf = Representation("protobuf")
    with pytest.raises(StatusError, match="has no protobuf form"):
        encode({"kind": "Widget", "apiVersion": "example.com/v1"}, protobuf)
    with pytest.raises(StatusError, match="has no protobuf form"):
        ListEncoding(protobuf, "example.com/v1", "WidgetList", "Widget")
    with pytest.raises(StatusError) as caught:
        ListEncoding(protobuf, "v1", "ConfigMapList", "ConfigMap").element({"metadata": {"name": 1}})
    assert caught.value.code == 500
