"""The strict decoding errors of a typed kind's body: fields that its struct does not have, and repeated fields.

Source: sigs.k8s.io/json `internal/golang/encoding/json` (`decodeState.object`, `saveStrictError`). Its decoder meets both as it reads, so
they come in the order of the document. Custom resources are decoded as maps first, which know repeated keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.serializer.json.codec import MAX_STRICT_ERRORS, Pairs
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.places import Path, render, step

_UNTYPED: Final = Node(properties={})


def strict_errors(root: Node, definitions: Mapping[str, Node], document: Any) -> list[str]:
    """The texts, each once, `MAX_STRICT_ERRORS` at most.

    Args:
        root: the schema of the kind.
        definitions: what its references stand for.
        document: the body, its objects as `Pairs`.
    """
    found: dict[str, None] = {}
    _walk(root, definitions, document, None, found)
    return list(found)


def _walk(node: Node, definitions: Mapping[str, Node], value: Any, path: Path, found: dict[str, None]) -> None:
    if node.ref:
        node = definitions[node.ref]
    if node.lenient or (node.preserve and not node.properties):
        return
    if isinstance(value, list):
        for index, part in enumerate(value):
            _walk(node.items or _UNTYPED, definitions, part, (path, f"[{index}]"), found)
    elif isinstance(value, Pairs):
        seen: set[str] = set()
        for name, part in value.pairs:
            here = step(path, name)
            child = node.field(name)
            if child is None:
                _add(f'unknown field "{render(here)}"', found)
                continue
            if name in seen:
                _add(f'duplicate field "{render(here)}"', found)
            seen.add(name)
            if isinstance(part, Pairs | list):
                _walk(child, definitions, part, here, found)


def _add(text: str, found: dict[str, None]) -> None:
    if len(found) < MAX_STRICT_ERRORS:
        found[text] = None
