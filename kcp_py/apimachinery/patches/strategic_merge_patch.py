"""Strategic merge patch: a merge patch in which lists can be merged too, as the schema and directives in the patch say.

Source: apimachinery `pkg/util/strategicpatch/patch.go`, of which this is the server's side (`MergeParallelList`, `IgnoreUnmatchedNulls`).
The schema is OpenAPI: `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key` stand on properties, `$ref` is followed. Lists are
merged through indexes by merge key, so that the work grows with the sizes of the two objects and not with their product.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.patches.elements import (
    bad_type,
    cut,
    element_identity,
    element_type,
    key_of,
    ordered,
    positions_of,
    scalar_identity,
    shown,
    unique,
)
from kcp_py.apimachinery.patches.merge_patch import without_nulls
from kcp_py.golang.types import go_type, json_type

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"
_PARALLEL: Final = ("$setElementOrder", "$deleteFromPrimitiveList")
_BAD_ORDER: Final = "invalid patch format of setElementOrder list"
_BAD_PRIMITIVES: Final = "invalid patch format of primitive list"
_BAD_RETAIN_KEYS: Final = "invalid patch format of retainKeys"
_MAX_REFERENCES: Final = 16
_MISSING: Final = object()

Schema = Mapping[str, Any]


class _Field(NamedTuple):
    """The schema of one field and how it is merged."""

    schema: Schema | None
    """The schema of the value, or of the elements of a list; None where any value is allowed."""
    strategy: str
    """`merge`, `replace` or nothing; `retainKeys` is taken off, as its directive says all."""
    merge_key: str


def apply(original: Mapping[str, Any], patch: Any, schema: Schema, definitions: Mapping[str, Schema]) -> dict[str, Any]:
    """A new object with the patch merged in; neither argument is changed, and the result shares unchanged parts.

    Args:
        original: The decoded object.
        patch: The decoded patch.
        schema: The schema of the object.
        definitions: Schemas by the last part of the references to them, such as `io.k8s.api.core.v1.Container`.

    Raises:
        StatusError: 400 for a malformed patch or directive, 422 for lists of lists.
    """
    if patch is None:
        return dict(original)
    if not isinstance(patch, dict):
        raise errors.bad_request(f"json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}")
    return _Merger(definitions).merge_map(original, patch, schema)


class _Merger:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def merge_map(self, original: Mapping[str, Any], patch: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
        if _DIRECTIVE in patch:
            return _replaced(patch)
        merged = dict(original)
        remaining = dict(patch)
        if _RETAIN_KEYS in remaining:
            _retain_keys(merged, remaining)
        for directive in [key for key in remaining if key.startswith("$setElementOrder")]:
            self._merge_ordered(merged, remaining, directive, schema)
        for directive in [key for key in remaining if key.startswith("$deleteFromPrimitiveList")]:
            _delete_primitives(merged, directive, remaining.pop(directive))
        for key, value in remaining.items():
            self._merge_field(merged, key, value, schema)
        return merged

    def _merge_field(self, merged: dict[str, Any], key: str, value: Any, schema: Schema | None) -> None:
        if value is None:
            merged.pop(key, None)
            return
        current = merged.get(key)
        kind = type(value)
        if kind is dict and type(current) is dict:
            field = self._field(schema, key)
            merged[key] = value if field.strategy == "replace" else self.merge_map(current, value, field.schema)
        elif kind is list and type(current) is list:
            field = self._field(schema, key, elements=True)
            merged[key] = self._merge_list(current, value, field)[0] if field.strategy == "merge" else value
        elif kind is dict and value.get(_DIRECTIVE) is not None:
            # Upstream drops a directive for which there is nothing to direct.
            merged.pop(key, None)
        else:
            merged[key] = _added(value)

    def _merge_list(self, original: list[Any], patch: list[Any], field: _Field) -> tuple[list[Any], list[Any]]:
        """Merge two lists.

        Returns:
            The merged list, and the list that later ordering takes as the server's order.
        """
        if not original and not patch:
            return original, original
        key = field.merge_key
        if element_type(original, patch) is not dict:
            merged = unique([*original, *patch])
            return ordered(merged, positions_of(patch, key), positions_of(original, key), key), original
        if not key:
            raise errors.bad_request("cannot merge lists without merge key for struct")
        before = original
        original, patch = _special_elements(original, patch, key)
        merged = list(original)
        # Of several elements with one key the first is the one that is merged.
        positions = positions_of(merged, key)
        for element in patch:
            identity = scalar_identity(key_of(element, key))
            position = positions.get(identity)
            if position is None:
                positions[identity] = len(merged)
                # Upstream looks for no directives in an element that was not there before.
                merged.append(without_nulls(element))
            else:
                merged[position] = self.merge_map(merged[position], element, field.schema)
        # Upstream deletes and appends in one array: appended elements overwrite the rest of the server's list.
        seen = [*merged, *before[len(merged) :]][: len(before)] if len(original) < len(before) else before
        return ordered(merged, positions_of(patch, key), positions_of(original, key), key), seen

    def _merge_ordered(self, merged: dict[str, Any], remaining: dict[str, Any], directive: str, schema: Schema | None) -> None:
        """Merge the list that a `$setElementOrder/` directive is about, and bring it in that order."""
        order = remaining.pop(directive)
        name = _directed_field(directive, _ORDER, _BAD_ORDER)
        if not isinstance(order, list):
            raise bad_type(order, [])
        current, patch = merged.get(name, _MISSING), remaining.pop(name, _MISSING)
        for value in (current, patch):
            if value is not _MISSING and not isinstance(value, list):
                raise bad_type(value, [])
        field = self._field(schema, name, elements=True)
        key = field.merge_key
        _check_order(patch if patch is not _MISSING else [], order, key)
        before: list[Any] = [] if current is _MISSING else current
        if patch is _MISSING:
            if current is _MISSING:
                return
            result = current
        elif current is _MISSING:
            result = _added(patch)
        elif field.strategy == "merge":
            result, before = self._merge_list(current, patch, field)
        else:
            result = patch
        if result:
            element_type(result)
            result = ordered(result, positions_of(order, key), positions_of(before, key), key)
        merged[name] = result

    def _field(self, schema: Schema | None, name: str, *, elements: bool = False) -> _Field:
        if schema is None:
            return _Field(None, "", "")
        found = (schema.get("properties") or {}).get(name)
        if found is None:
            extra = schema.get("additionalProperties")
            if isinstance(extra, Mapping):
                found = extra
            elif not schema.get("properties") or extra or schema.get("x-kubernetes-preserve-unknown-fields"):
                return _Field(None, "", "")
            else:
                raise errors.bad_request(f'unable to find api field "{cut(name)}"')
        strategies = [part for part in found.get("x-kubernetes-patch-strategy", "").split(",") if part not in {"", "retainKeys"}]
        merge_key = found.get("x-kubernetes-patch-merge-key", "")
        resolved = self._resolve(found)
        if elements and resolved is not None and "items" in resolved:
            resolved = self._resolve(resolved["items"])
        return _Field(resolved, strategies[0] if strategies else "", merge_key)

    def _resolve(self, schema: Schema) -> Schema | None:
        """Follow references, also where OpenAPI v3 wraps one in `allOf` because of other keywords."""
        found: Schema | None = schema
        for _ in range(_MAX_REFERENCES):
            if found is None:
                return None
            reference = found.get("$ref")
            if reference is None:
                all_of = found.get("allOf")
                if not all_of or found.get("properties"):
                    return found
                found = all_of[0]
            else:
                found = self._definitions.get(reference.rpartition("/")[2])
        return None


def _replaced(patch: Mapping[str, Any]) -> dict[str, Any]:
    match patch[_DIRECTIVE]:
        case "replace":
            return {key: value for key, value in patch.items() if key != _DIRECTIVE}
        case "delete":
            return {}
        case directive:
            raise errors.bad_request(f"unknown patch type: {_directive_text(directive)} in map: {shown(patch)}")


def _retain_keys(merged: dict[str, Any], remaining: dict[str, Any]) -> None:
    retained = remaining.pop(_RETAIN_KEYS)
    if not isinstance(retained, list) or not all(isinstance(key, str) for key in retained):
        raise errors.bad_request(_BAD_RETAIN_KEYS)
    kept = set(retained)
    for key, value in remaining.items():
        if value is not None and key not in kept and not key.startswith(_PARALLEL):
            raise errors.bad_request(_BAD_RETAIN_KEYS)
    for key in [key for key in merged if key not in kept]:
        del merged[key]


def _delete_primitives(merged: dict[str, Any], directive: str, values: Any) -> None:
    name = _directed_field(directive, _DELETE_PRIMITIVES, _BAD_PRIMITIVES)
    if values is None:
        merged.pop(name, None)
        return
    current = merged.get(name)
    if not isinstance(current, list) or not isinstance(values, list):
        return
    if any(isinstance(value, dict | list) for value in values):
        raise errors.bad_request(_BAD_PRIMITIVES)
    element_type(current, values)
    deleted = set(map(scalar_identity, values))
    merged[name] = [value for value in current if isinstance(value, dict | list) or scalar_identity(value) not in deleted]


def _special_elements(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the elements of a patch list that are directives; returns the original and the patch without them."""
    deleted: set[Any] = set()
    ordinary: list[Any] = []
    replace = False
    for element in patch:
        directive = element.get(_DIRECTIVE)
        if directive is None and _DIRECTIVE not in element:
            ordinary.append(element)
        elif directive == "delete":
            deleted.add(scalar_identity(key_of(element, key)))
        elif directive == "replace":
            replace = True
        elif directive == "merge":
            raise errors.bad_request("merging lists cannot yet be specified in the patch")
        else:
            raise errors.bad_request(f"unknown patch type: {_directive_text(directive)} in map: {shown(element)}")
    if replace:
        return ordinary, []
    if deleted:
        original = [element for element in original if key not in element or scalar_identity(element[key]) not in deleted]
    return original, ordinary


def _check_order(patch: list[Any], order: list[Any], key: str) -> None:
    """All elements of a patch list must stand in the `$setElementOrder` list, in the same order."""
    if not order or not patch:
        return
    if key:
        for element in patch:
            if not isinstance(element, dict):
                raise bad_type(element, {})
        patch = [element for element in patch if element.get(_DIRECTIVE) != "delete"]
    named = 0
    for candidate in order:
        while named < len(patch) and isinstance(patch[named], dict) and _DIRECTIVE in patch[named]:
            named += 1
        if named == len(patch):
            return
        if element_identity(patch[named], key) == element_identity(candidate, key):
            named += 1
    if named < len(patch):
        raise errors.bad_request(f"The order in patch list:\n{shown(patch)}\n doesn't match $setElementOrder list:\n{shown(order)}\n")


def _added(value: Any) -> Any:
    """A value that was not there before, without nulls and what only directs; other directives are fields that the kind does not know."""
    if type(value) is dict:
        return {key: _added(item) for key, item in value.items() if item is not None and not _is_directive(item)}
    if type(value) is list:
        return [_added(item) for item in value if not _is_directive(item)]
    return value


def _is_directive(value: Any) -> bool:
    return type(value) is dict and value.get(_DIRECTIVE) is not None


def _directed_field(directive: str, prefix: str, problem: str) -> str:
    if not directive.startswith(prefix):
        raise errors.bad_request(problem)
    return directive[len(prefix) :]


def _directive_text(directive: Any) -> str:
    """The text of a value as Go's `%s` prints it."""
    if isinstance(directive, str):
        return cut(directive)
    return "%!s(<nil>)" if directive is None else f"%!s({go_type(directive)}={shown(directive)})"
