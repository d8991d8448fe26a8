"""JSON patch (RFC 6902) with the limits and liberties of upstream.

As in evanphx/json-patch v4, which upstream uses: negative indices count from the end; `replace` of a member that is missing adds it; `test`
with null succeeds on a member that is missing, and `copy` from there makes a null, as does `add` without a value; the whole document can be
replaced and tested, and nothing else. Containers are copied when first changed, so that the document is not. Three budgets bound the work:
operations, bytes made by `copy`, and list elements moved by insertions and removals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH, too_deep
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.types import json_type

MAX_OPERATIONS: Final = 10_000
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024
MAX_MOVED_ELEMENTS: Final = 100_000_000
_MEMBERS: Final = frozenset({"op", "path", "from", "value"})
_TEXTS: Final = ("op", "path", "from")
_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_SHOWN: Final = 200
_MISSING: Final = object()
_MANY: Final = 100


class _CannotApplyError(ValueError):
    """An operation failed."""


class _IndexError(ValueError):
    """There is no such place in a list. Its text is that of upstream."""


def apply(document: Any, operations: Any) -> Any:
    """The document after all operations; `document` and `operations` are decoded JSON and are not changed.

    Raises:
        StatusError: 400 not a list of operations, 413 too many of them, 422 one cannot be applied or a `test` failed.
    """
    if operations is None:
        return document
    if not isinstance(operations, list):
        raise errors.bad_request(f"{_cannot_unmarshal(operations)} value of type jsonpatch.Patch")
    for operation in operations:
        if operation is not None and not isinstance(operation, dict):
            raise errors.bad_request(f"{_cannot_unmarshal(operation)} value of type jsonpatch.Operation")
    if len(operations) > MAX_OPERATIONS:
        raise errors.too_many_operations(MAX_OPERATIONS, len(operations))
    try:
        return _Patcher(document).run(operations)
    except _CannotApplyError as error:
        raise errors.unprocessable(str(error)) from None


def is_heavy(operations: Any) -> bool:
    """Whether the work can be out of all proportion to the sizes of patch and document: copies multiply, and insertions move lists."""
    if not isinstance(operations, list):
        return False
    return len(operations) > _MANY or sum(isinstance(operation, dict) and operation.get("op") == "copy" for operation in operations) > 1


def check_types(operations: Any) -> None:
    """Refuse a document that is not a list of operations, in the words of upstream's strict decoding.

    Raises:
        StatusError: 400.
    """
    if operations is not None and not isinstance(operations, list):
        raise errors.bad_request(f"error decoding patch: {_cannot_unmarshal(operations)} value of type []handlers.jsonPatchOp")
    for operation in operations or ():
        if operation is not None and not isinstance(operation, dict):
            raise errors.bad_request(f"error decoding patch: {_cannot_unmarshal(operation)} value of type handlers.jsonPatchOp")
        for member, value in (operation or {}).items():
            if member in _TEXTS and value is not None and not isinstance(value, str):
                problem = f"{_cannot_unmarshal(value)} struct field jsonPatchOp.{member} of type string"
                raise errors.bad_request(f"error decoding patch: {problem}")


def _cannot_unmarshal(value: Any) -> str:
    return f"json: cannot unmarshal {json_type(value)} into Go"


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

    def run(self, operations: list[dict[str, Any] | None]) -> Any:
        for given in operations:
            operation = given or {}
            match kind := operation.get("op"):
                case "add":
                    self._add(_text(operation, "path"), operation.get("value"))
                case "remove":
                    self._remove(_text(operation, "path"))
                case "replace":
                    self._replace(_text(operation, "path"), operation.get("value"))
                case "move":
                    self._move(_text(operation, "from"), operation)
                case "copy":
                    self._copy(_text(operation, "from"), operation)
                case "test":
                    self._test(_text(operation, "path"), operation.get("value"))
                case _:
                    raise _CannotApplyError(f"Unexpected kind: {_shown(kind) if isinstance(kind, str) else 'unknown'}")
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

    def _place(self, path: str, *, change: bool) -> tuple[Any, str] | None:
        """The container that holds the last segment of the path, and that segment; None where there is none.

        Args:
            path: a JSON pointer. What stands before its first slash is not looked at, as upstream.
            change: make the container, and those that hold it, ready to be changed.
        """
        _, *segments = path.split("/")
        node = self._root
        if not segments or not isinstance(node, dict | list):
            return None
        if "~" in path:
            segments = [segment.replace("~1", "/").replace("~0", "~") for segment in segments]
        if change:
            node = self._root = self._own(node)
        for segment in segments[:-1]:
            if type(node) is dict:
                key: Any = segment
                child = node.get(segment)
            else:
                try:
                    key = _index(segment, len(node))
                except _IndexError:
                    return None
                child = node[key]
            if not isinstance(child, dict | list):
                return None
            if change:
                owned = self._own(child)
                if owned is not child:
                    node[key] = child = owned
            node = child
        return node, segments[-1]

    def _add(self, path: str, value: Any) -> None:
        self._insert(
            path, value, f'add operation does not apply: doc is missing path: "{_shown(path)}"', f"error in add for path: '{_shown(path)}'"
        )

    def _insert(self, path: str, value: Any, missing: str, failed: str) -> None:
        self._deepened = self._deepened or isinstance(value, dict | list)
        place = self._place(path, change=True)
        if place is None:
            raise _CannotApplyError(f"{missing}: missing value")
        parent, last = place
        if type(parent) is dict:
            parent[last] = value
        elif last == "-":
            parent.append(value)
        else:
            self._move_elements(len(parent))
            try:
                # One more than there are elements, as the end is a place as well.
                index = _index(last, len(parent) + 1)
            except _IndexError as error:
                improper = "" if _INDEX.fullmatch(last) else f"value was not a proper array index: '{_shown(last)}': "
                raise _CannotApplyError(f"{failed}: {improper}{error}") from None
            parent.insert(index, value)

    def _remove(self, path: str) -> None:
        place = self._place(path, change=True)
        if place is None:
            raise _CannotApplyError(f'remove operation does not apply: doc is missing path: "{_shown(path)}": missing value')
        try:
            self._take_out(*place)
        except ValueError as error:
            raise _CannotApplyError(f"error in remove for path: '{_shown(path)}': {error}") from None

    def _take_out(self, parent: Any, last: str) -> Any:
        """Remove a member or element, and return it.

        Raises:
            ValueError: there is none.
        """
        if type(parent) is list:
            self._move_elements(len(parent))
            return parent.pop(_index(last, len(parent)))
        if last not in parent:
            raise ValueError(f"Unable to remove nonexistent key: {_shown(last)}: missing value")
        return parent.pop(last)

    def _replace(self, path: str, value: Any) -> None:
        self._deepened = self._deepened or isinstance(value, dict | list)
        if not path:
            if not isinstance(value, dict | list):
                raise _CannotApplyError("replace operation value must be object or array")
            self._root = value
            return
        place = self._place(path, change=True)
        if place is None:
            raise _CannotApplyError(f"replace operation does not apply: doc is missing path: {_shown(path)}: missing value")
        parent, last = place
        try:
            parent[last if type(parent) is dict else _index(last, len(parent))] = value
        except _IndexError:
            raise _CannotApplyError(f"replace operation does not apply: doc is missing key: {_shown(path)}: missing value") from None

    def _move(self, source: str, operation: dict[str, Any]) -> None:
        place = self._place(source, change=True)
        if place is None:
            raise _CannotApplyError(f"move operation does not apply: doc is missing from path: {_shown(source)}: missing value")
        try:
            value = self._take_out(*place)
        except ValueError as error:
            raise _CannotApplyError(f"error in move for path: '{_shown(place[1])}': {error}") from None
        path = _text(operation, "path")
        missing = f"move operation does not apply: doc is missing destination path: {_shown(path)}"
        self._insert(path, value, missing, f"error in move for path: '{_shown(path)}'")

    def _copy(self, source: str, operation: dict[str, Any]) -> None:
        place = self._place(source, change=False)
        if place is None:
            raise _CannotApplyError(f"copy operation does not apply: doc is missing from path: {_shown(source)}: missing value")
        try:
            value = _found(*place)
        except _IndexError as error:
            raise _CannotApplyError(f"error in copy for from: '{_shown(source)}': {error}") from None
        path = _text(operation, "path")
        missing = f"copy operation does not apply: doc is missing destination path: {_shown(path)}"
        if self._place(path, change=False) is None:
            raise _CannotApplyError(f"{missing}: missing value")
        self._insert(path, self._copied_value(value), missing, "error while adding value during copy")

    def _copied_value(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            encoded = orjson.dumps(value)
        except TypeError:
            raise _CannotApplyError(f"the result exceeds the max depth of {MAX_DEPTH}") from None
        self._copied += len(encoded)
        if self._copied > MAX_COPIED_BYTES:
            grown = f"the accumulated size increase of copy is {self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            raise _CannotApplyError(f"Unable to complete the copy, {grown}")
        return orjson.loads(encoded) if isinstance(value, dict | list) else value

    def _test(self, path: str, value: Any) -> None:
        if not path:
            found = self._root
        else:
            place = self._place(path, change=False)
            if place is None:
                raise _CannotApplyError(f"test operation does not apply: is missing path: {_shown(path)}: missing value")
            try:
                found = _found(*place)
            except _IndexError as error:
                raise _CannotApplyError(f"error in test for path: '{_shown(path)}': {error}") from None
        if not equal(found, value):
            raise _CannotApplyError(f"testing value {_shown(path)} failed: test failed")

    def _move_elements(self, count: int) -> None:
        self._moved += count
        if self._moved > MAX_MOVED_ELEMENTS:
            raise _CannotApplyError(f"the patch moves more than {MAX_MOVED_ELEMENTS} list elements")


def _text(operation: dict[str, Any], member: str) -> str:
    text = operation.get(member)
    if not isinstance(text, str):
        raise _CannotApplyError(f"{operation['op']} operation failed to decode {member}: missing value")
    return text


def _found(parent: Any, last: str) -> Any:
    """What stands in a container; None also for a member that is missing."""
    return parent.get(last) if type(parent) is dict else parent[_index(last, len(parent))]


def _index(segment: str, length: int) -> int:
    """A place in a list of so many elements, in whatever form Go's `strconv.Atoi` reads.

    Raises:
        _IndexError: there is none.
    """
    if _INDEX.fullmatch(segment) is None:
        raise _IndexError(f"strconv.Atoi: parsing {go_quote(_shown(segment))}: invalid syntax")
    index = int(segment)
    if not -length <= index < length:
        raise _IndexError(f"Unable to access invalid index: {index}: invalid index referenced")
    return index + length if index < 0 else index


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
