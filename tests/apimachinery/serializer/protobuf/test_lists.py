from __future__ import annotations

import pytest

from kcp_py.apimachinery.serializer.protobuf import ProtobufError, encode_list, encode_object, item_encoder


@pytest.mark.parametrize("count", [0, 1, 200])
def test_like_at_once(count: int) -> None:
    """Items that were encoded one by one make the same list."""
    items = [{"metadata": {"name": f"a{number}"}, "data": {"k": "v" * number}} for number in range(count)]
    metadata = {"resourceVersion": "5", "remainingItemCount": 3}
    encode_item = item_encoder("v1", "ConfigMap")
    parts = encode_list("v1", "ConfigMapList", metadata, [encode_item(item) for item in items])
    assert b"".join(parts) == encode_object({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": items})


def test_unknown_kind() -> None:
    """Custom resources have no messages."""
    with pytest.raises(ProtobufError):
        item_encoder("example.com/v1", "Widget")
