"""JSON patch (RFC 6902) with the limits and liberties of upstream.

As in evanphx/json-patch v4, which upstream uses: negative indices count from the end; `replace` of a member that is missing adds it; `test`
with null succeeds on a member that is missing. Containers are copied when first changed, so that the document is not. Three budgets bound
the work: operations, bytes made by `copy`, and list elements moved by insertions and removals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.codec import MAX_DEPTH, too_deep
from kcp_py.apimachinery.fielderrors import go_quote

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
MAX_MOVED_ELEMENTS: Final = 100_000_000
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})
_INDEX: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,9})", re.ASCII)
_SHOWN: Final = 200
_MISSING: Final = object()


class _CannotApplyError(ValueError):
    """An operation failed."""


def apply(document: Any, operations: Any) -> Any:
    """The document after all operations; `document` and `operations` are decoded JSON and are not changed.

    Raises:
        StatusError: 400 not a list of operations, 413 too many of them, 422 one cannot be applied or a `test` failed.
    """
    if not isinstance(operations, list) or not all(isinstance(operation, dict) for operation in operations):
        raise errors.bad_request("error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch")
    if len(operations) > MAX_OPERATIONS:
        raise errors.too_many_operations(MAX_OPERATIONS, len(operations))
    try:
        return _Patcher(document).run(operations)
    except _CannotApplyError as error:
        raise errors.unprocessable(str(error)) from None


def unknown_fields(operations: Sequence[Any]) -> list[str]:
    """The strict decoding errors of a patch, such as `json patch unknown field "[0].foo"`."""
    return [
        f"json patch unknown field {go_quote(f'[{index}].{member}')}"
        for index, operation in enumerate(operations)
        if isinstance(operation, dict)
        for member in operation
        if member not in _MEMBERS
    ]


class _Patcher:
    def __init__(self, document: Any) -> None:
        self._root = document
        # Containers that only this patch has, by identity; the values keep them alive, so that no identity is used twice.
        self._owned: dict[int, Any] = {}
        self._copied = 0
        self._moved = 0
        self._deepened = False

    def run(self, operations: list[dict[str, Any]]) -> Any:
        for operation in operations:
            path = _text(operation, "path")
            match operation.get("op"):
                case "add":
                    self._add(path, _value(operation))
                case "remove":
                    self._remove(path)
                case "replace":
                    self._replace(path, _value(operation))
                case "move":
                    source = _text(operation, "from")
                    if path.startswith(f"{source}/"):
                        raise _CannotApplyError(f"move operation does not apply: {_shown(source)} cannot be moved into itself")
                    value = self._get(source)
                    if path != source:
                        self._remove(source)
                        self._add(path, value)
                case "copy":
                    self._add(path, self._copy(self._get(_text(operation, "from"))))
                case "test":
                    self._test(path, operation.get("value"))
                case kind:
                    raise _CannotApplyError(f"Unexpected kind: {_shown(str(kind))}")
        if self._deepened and too_deep(self._root, MAX_DEPTH):
            raise _CannotApplyError(f"the result exceeds the max depth of {MAX_DEPTH}")
        return self._root

    def _own(self, container: Any) -> Any:
        """A copy of the container that may be changed, or the container itself when it is one."""
        if id(container) in self._owned:
            return container
        copied = container.copy()
        self._owned[id(copied)] = copied
        return copied

    def _parent(self, path: str) -> tuple[Any, str]:
        """The container that holds the last segment of the path, ready to be changed, and that segment."""
        *segments, last = _segments(path)
        if not isinstance(self._root, dict | list):
            raise _CannotApplyError(f"doc is missing path: {_shown(path)}: missing value")
        node = self._root = self._own(self._root)
        for segment in segments:
            key = segment if type(node) is dict else _index(node, segment)
            child = node.get(key) if type(node) is dict else node[key]
            if not isinstance(child, dict | list):
                raise _CannotApplyError(f"doc is missing path: {_shown(path)}: missing value")
            owned = self._own(child)
            if owned is not child:
                node[key] = owned
            node = owned
        return node, last

    def _get(self, path: str, default: Any = _MISSING) -> Any:
        node = self._root
        if not path:
            return node
        segments = _segments(path)
        for position, segment in enumerate(segments):
            if type(node) is dict:
                child = node.get(segment, _MISSING)
                if child is _MISSING:
                    if default is not _MISSING and position == len(segments) - 1:
                        return default
                    raise _CannotApplyError(f"doc is missing path: {_shown(path)}: missing value")
                node = child
            elif type(node) is list:
                node = node[_index(node, segment)]
            else:
                raise _CannotApplyError(f"doc is missing path: {_shown(path)}: missing value")
        return node

    def _add(self, path: str, value: Any) -> None:
        self._deepened = self._deepened or isinstance(value, dict | list)
        if not path:
            self._root = value
            return
        parent, last = self._parent(path)
        if type(parent) is dict:
            parent[last] = value
        elif last == "-":
            parent.append(value)
        else:
            self._move_elements(len(parent))
            # One more than there are elements, as the end is a place as well.
            parent.insert(_index_within(len(parent) + 1, last), value)

    def _remove(self, path: str) -> None:
        if not path:
            raise _CannotApplyError("remove operation does not apply: doc is missing path: missing value")
        parent, last = self._parent(path)
        if type(parent) is list:
            self._move_elements(len(parent))
            del parent[_index(parent, last)]
        elif last not in parent:
            raise _CannotApplyError(f"Unable to remove nonexistent key: {_shown(last)}: missing value")
        else:
            del parent[last]

    def _replace(self, path: str, value: Any) -> None:
        self._deepened = self._deepened or isinstance(value, dict | list)
        if not path:
            if not isinstance(value, dict | list):
                raise _CannotApplyError("replace operation value must be object or array")
            self._root = value
            return
        parent, last = self._parent(path)
        parent[last if type(parent) is dict else _index(parent, last)] = value

    def _test(self, path: str, value: Any) -> None:
        if not _equal(self._get(path, None), value):
            raise _CannotApplyError(f"testing value {_shown(path)} failed: test failed")

    def _copy(self, value: Any) -> Any:
        try:
            encoded = orjson.dumps(value)
        except TypeError:
            raise _CannotApplyError(f"the result exceeds the max depth of {MAX_DEPTH}") from None
        self._copied += len(encoded)
        if self._copied > MAX_COPIED_BYTES:
            grown = f"the accumulated size increase of copy is {self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            raise _CannotApplyError(f"Unable to complete the copy, {grown}")
        return orjson.loads(encoded) if isinstance(value, dict | list) else value

    def _move_elements(self, count: int) -> None:
        self._moved += count
        if self._moved > MAX_MOVED_ELEMENTS:
            raise _CannotApplyError(f"the patch moves more than {MAX_MOVED_ELEMENTS} list elements")


def _text(operation: dict[str, Any], member: str) -> str:
    text = operation.get(member)
    if not isinstance(text, str):
        raise _CannotApplyError(f"{_shown(str(operation.get('op')))} operation failed to decode {member}: missing value")
    return text


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _CannotApplyError("operation, missing value field: missing value")
    return operation["value"]


def _segments(path: str) -> list[str]:
    if not path.startswith("/"):
        raise _CannotApplyError(f"doc is missing path: {_shown(path)}: missing value")
    segments = path[1:].split("/")
    if "~" in path:
        return [segment.replace("~1", "/").replace("~0", "~") for segment in segments]
    return segments


def _index(container: list[Any], segment: str) -> int:
    return _index_within(len(container), segment)


def _index_within(length: int, segment: str) -> int:
    if _INDEX.fullmatch(segment) is None:
        raise _CannotApplyError(f"value was not a proper array index: '{_shown(segment)}'")
    index = int(segment)
    if not -length <= index < length:
        raise _CannotApplyError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1."""
    if type(left) is dict:
        return type(right) is dict and left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if type(left) is list:
        return type(right) is list and len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
