"""The errors of a value in upstream's words and order: the slow walk, run only on values that `predicate` refused.

Source: k8s.io/kube-openapi `pkg/validation/validate` and `pkg/validation/errors`, and `kubeOpenAPIResultToFieldErrors` of
k8s.io/apiextensions-apiserver. Where a value fails `anyOf` or `oneOf`, the errors of the alternative with most checks passed are given; so
each walk answers with upstream's count of checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from kcp_py.apimachinery.equality import equal
from kcp_py.apimachinery.fielderrors import FieldError, invalid, not_supported, required, too_long, too_many, type_invalid
from kcp_py.apimachinery.formats import find_format
from kcp_py.golang.floats import format_number
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.regexp import PatternError, compile_pattern
from kcp_py.schema.structural.correlated import Correlated
from kcp_py.schema.structural.embedded import resource_errors
from kcp_py.schema.structural.listtypes import is_unique, list_errors
from kcp_py.schema.structural.nodes import Node
from kcp_py.schema.structural.places import Path, render, step
from kcp_py.schema.structural.predicate import bound, number_kind, type_problem
from kcp_py.schema.structural.values import in_range, is_multiple

MAX_ERRORS: Final = 1000
"""Errors after which the walk stops: a body of megabytes can hold a million."""
MAX_TEXT: Final = 4 * 1024 * 1024
"""Characters of messages after which it stops: each may print a large value."""

FoundErrors = list[tuple[str, FieldError]]
"""Upstream's own message of each error, by which repetitions are recognised, and the error."""

_PLAIN_TYPES: Final = {str: "string", bool: "boolean", dict: "object"}
"""Values of these types satisfy a node without a format that names their type. All other cases are left to `type_problem`."""

NO_FIELD: Final = "<nil>"
"""Go prints the path of errors that have none so."""


class _EnoughError(Exception):
    """The walk has found more than it may report."""


class Reporter:
    """One walk over one value."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._count = 0
        self._size = 0

    def report(self, node: Node, value: Any, path: Path = None, was: Correlated | None = None) -> list[FieldError]:
        """The errors of the OpenAPI rules; the paths of children of an empty `path` have no dot.

        With `was`, which pairs the value with the old one, errors about unchanged parts are left out.
        """
        found: FoundErrors = []
        try:
            self.check(node, value, path, found, was)
        except _EnoughError:
            if not found:
                found.append(("", invalid(NO_FIELD, "", "too many errors")))
        return list(dict(found).values()) if len(found) == 1 else list(_distinct(found))

    def _add(self, found: FoundErrors, message: str, error: FieldError) -> None:
        found.append((message, error))
        self._count += 1
        self._size += len(error.text) + len(error.field)
        if self._count > MAX_ERRORS or self._size > MAX_TEXT:
            raise _EnoughError

    def _invalid(self, found: FoundErrors, path: Path, value: Any, text: str) -> None:
        message = f"{render(path)} in body {text}"
        self._add(found, message, invalid(_field(path), value, message))

    def check(self, node: Node, value: Any, path: Path, found: FoundErrors, was: Correlated | None = None) -> int:
        """Add the errors of one value; answers with the number of checks passed."""
        before = len(found)
        matches = self._check(node, value, path, found, was)
        if was is not None and len(found) > before and was.unchanged:
            del found[before:]
        return matches

    def _check(self, node: Node, value: Any, path: Path, found: FoundErrors, was: Correlated | None) -> int:
        if node.ref:
            node = self._definitions[node.ref]
        if value is None:
            return self._check_null(node, path, found)
        matches = 1
        kind = type(value)
        if not node.format and _PLAIN_TYPES.get(kind) in node.types:
            matches += 2
        elif node.types or node.format:
            matches += 1 + self._check_type(node, value, path, found)
        matches += 1 + self._check_junctors(node, value, path, found)
        if kind is str:
            matches += 1
            self._check_string(node, value, path, found)
            if node.format and (rule := find_format(node.format)) is not None:
                matches += 1
                if not rule(value):
                    self._wrong_format(found, path, node.format, value)
        elif kind is int or kind is float:
            matches += 2
            self._check_number(node, value, path, found)
        elif kind is list:
            matches += 2 + self._check_list(node, value, path, found, was)
        matches += 1
        if node.enum and not any(equal(value, choice) for choice in node.enum):
            self._not_supported(node, value, path, found)
        if kind is dict:
            matches += 1 + self._check_object(node, value, path, found, was)
        return matches

    def _check_null(self, node: Node, path: Path, found: FoundErrors) -> int:
        matches = 1
        if node.types and not node.nullable and "null" not in node.types:
            matches = 0
            self._wrong_type(found, path, ",".join(node.types), "null")
        if node.enum:
            self._not_supported(node, None, path, found)
        return matches

    def _wrong_type(self, found: FoundErrors, path: Path, expected: str, actual: str) -> None:
        """Add the error for a value of another type, whose name is `actual`."""
        message = _type_message(path, expected, actual)
        self._add(found, message, type_invalid(_field(path), actual, message, expected=expected))

    def _wrong_format(self, found: FoundErrors, path: Path, expected: str, text: str) -> None:
        """Add the error for a string that does not have its format, which upstream reports like a type."""
        message = _type_message(path, expected, text)
        self._add(found, message, type_invalid(_field(path), text, message))

    def _not_supported(self, node: Node, value: Any, path: Path, found: FoundErrors) -> None:
        choices = [choice if type(choice) is str else orjson.dumps(choice).decode() for choice in node.enum]
        self._add(found, f"{render(path)} in body should be one of {choices}", not_supported(_field(path), value, choices))

    def _check_type(self, node: Node, value: Any, path: Path, found: FoundErrors) -> int:
        problem = type_problem(node.types, node.format, value)
        if problem is None and node.typed and type(value) is list and "string" in node.types:
            problem = ("string", "array")
        if problem is None:
            return 1
        self._wrong_type(found, path, *problem)
        return 0

    def _check_junctors(self, node: Node, value: Any, path: Path, found: FoundErrors) -> int:
        matches = 1
        if node.any_of:
            matches += self._check_any_of(node, value, path, found)
        if node.one_of:
            matches += self._check_one_of(node, value, path, found)
        if node.all_of:
            valid = 0
            for part in node.all_of:
                before = len(found)
                matches += self.check(part, value, path, found)
                valid += len(found) == before
            if valid != len(node.all_of):
                self._general(found, f"{go_quote(render(path))} must validate all the schemas (allOf){'' if valid else '. None validated'}")
        if node.negated is not None:
            inner: FoundErrors = []
            self.check(node.negated, value, path, inner)
            if not inner:
                self._general(found, f"{go_quote(render(path))} must not validate the schema (not)")
        return matches

    def _general(self, found: FoundErrors, message: str) -> None:
        """An error that upstream gives no field."""
        self._add(found, message, invalid(NO_FIELD, "", message))

    def _check_any_of(self, node: Node, value: Any, path: Path, found: FoundErrors) -> int:
        best: FoundErrors = []
        best_matches = -1
        for part in node.any_of:
            inner: FoundErrors = []
            matches = self.check(part, value, path, inner)
            if not inner:
                return matches
            if matches > best_matches:
                best, best_matches = inner, matches
        self._general(found, f"{go_quote(render(path))} must validate at least one schema (anyOf)")
        found.extend(best)
        return best_matches

    def _check_one_of(self, node: Node, value: Any, path: Path, found: FoundErrors) -> int:
        best: FoundErrors = []
        best_matches = -1
        valid = 0
        first_matches = 0
        for part in node.one_of:
            inner: FoundErrors = []
            matches = self.check(part, value, path, inner)
            if not inner:
                valid += 1
                if valid == 1:
                    first_matches = matches
            elif not valid and matches > best_matches:
                best, best_matches = inner, matches
        if valid == 1:
            return first_matches
        detail = f"Found {valid} valid alternatives" if valid else "Found none valid"
        self._general(found, f"{go_quote(render(path))} must validate one and only one schema (oneOf). {detail}")
        if valid:
            return 0
        found.extend(best)
        return best_matches

    def _check_string(self, node: Node, value: str, path: Path, found: FoundErrors) -> None:
        if node.max_length is not None and len(value) > node.max_length:
            message = f"{render(path)} in body should be at most {node.max_length} chars long"
            self._add(found, message, too_long(_field(path), node.max_length))
        elif node.min_length is not None and len(value) < node.min_length:
            self._invalid(found, path, value, f"should be at least {node.min_length} chars long")
        elif node.pattern:
            try:
                if not compile_pattern(node.pattern)(value):
                    self._invalid(found, path, value, f"should match '{node.pattern}'")
            except PatternError as error:
                self._invalid(found, path, value, f"should match '{node.pattern}, but pattern is invalid: {error}'")

    def _check_number(self, node: Node, value: float, path: Path, found: FoundErrors) -> None:
        self._check_range(node, value, "Checked", path, found)
        if (factor := node.multiple_of) is not None:
            limit = self._limit(node, factor, "MultipleOf", value=value, path=path, found=found)
            if not is_multiple(value, limit):
                self._invalid(found, path, value, f"should be a multiple of {format_number(limit)}")
        if node.minimum is not None:
            limit = self._limit(node, node.minimum, "Minimum boundary", value=value, path=path, found=found)
            if value < limit or (node.exclusive_minimum and value == limit):
                words = "greater than" if node.exclusive_minimum else "greater than or equal to"
                self._invalid(found, path, value, f"should be {words} {format_number(limit)}")
        if node.maximum is not None:
            limit = self._limit(node, node.maximum, "Maximum boundary", value=value, path=path, found=found)
            if value > limit or (node.exclusive_maximum and value == limit):
                words = "less than" if node.exclusive_maximum else "less than or equal to"
                self._invalid(found, path, value, f"should be {words} {format_number(limit)}")

    def _limit(self, node: Node, limit: float, name: str, *, value: float, path: Path, found: FoundErrors) -> float:
        """A limit as it is compared; one that is not a value of the node's type is itself an error."""
        return bound(value, limit) if self._check_range(node, limit, name, path, found) else limit

    def _check_range(self, node: Node, number: float, name: str, path: Path, found: FoundErrors) -> bool:
        kind = number_kind(node)
        if in_range(number, kind, node.format):
            return True
        form = f"with format {node.format}" if node.format else "(default format)"
        self._general(found, f"{name} value must be of type {kind} {form} in {render(path)}")
        return False

    def _check_list(self, node: Node, value: list[Any], path: Path, found: FoundErrors, was: Correlated | None) -> int:
        matches = 0
        if node.items is not None:
            for index, element in enumerate(value):
                matches += self.check(node.items, element, (path, f"[{index}]"), found, was and was.index(index))
        size = len(value)
        if node.min_items is not None and size < node.min_items:
            self._invalid(found, path, size, f"should have at least {node.min_items} items")
        if node.max_items is not None and size > node.max_items:
            message = f"{render(path)} in body should have at most {node.max_items} items"
            self._add(found, message, too_many(_field(path), size, node.max_items))
        return matches

    def _check_object(self, node: Node, value: dict[str, Any], path: Path, found: FoundErrors, was: Correlated | None) -> int:
        size = len(value)
        if node.min_properties is not None and size < node.min_properties:
            self._invalid(found, path, size, f"should have at least {node.min_properties} properties")
        if node.max_properties is not None and size > node.max_properties:
            message = f"{render(path)} in body should have at most {node.max_properties} properties"
            self._add(found, message, too_many(_field(path), size, node.max_properties))
        matches = 0
        properties, other = node.properties, node.additional
        if other is False or isinstance(other, Node):
            for name, part in value.items():
                if name in properties:
                    continue
                if other is False:
                    message = f"{render(path)}.{name} in body is a forbidden property"
                    self._add(found, message, invalid(_field(path), name, message))
                else:
                    matches += self.check(other, part, (path, f".{name}"), found, _old_field(was, name))
        for name, part in value.items():
            if (child := properties.get(name)) is not None:
                matches += self.check(child, part, step(path, name), found, _old_field(was, name))
        for name in node.required:
            if name not in value:
                self._add(found, f"{render(path)}.{name} in body is required", required(_field((path, f".{name}"))))
        return matches


def _old_field(was: Correlated | None, name: str) -> Correlated | None:
    """A field paired with the old one."""
    if was is None or (was.top and name in {"apiVersion", "kind"}):
        return None
    return was.key(name)


def _type_message(path: Path, expected: str, actual: str) -> str:
    return f"{render(path)} in body must be of type {expected}: {go_quote(actual)}"


def _distinct(found: FoundErrors) -> list[FieldError]:
    first: dict[str, FieldError] = {}
    for message, error in found:
        first.setdefault(message, error)
    return list(first.values())


def _field(path: Path) -> str:
    return render(path).removeprefix(".") or NO_FIELD


def structure_errors(definitions: Mapping[str, Node], node: Node, value: Any, path: str, *, list_types: bool) -> list[FieldError]:
    """What the OpenAPI rules do not see: embedded resources, or, with `list_types`, the uniqueness that list types promise."""
    errors: list[FieldError] = []
    _collect(definitions, node, value, path=(None, path) if path else None, list_types=list_types, errors=errors)
    return errors[:MAX_ERRORS]


def _collect(definitions: Mapping[str, Node], node: Node, value: Any, *, path: Path, list_types: bool, errors: list[FieldError]) -> None:
    if node.ref:
        node = definitions[node.ref]
    if len(errors) > MAX_ERRORS:
        return
    if type(value) is dict:
        if node.embedded and not list_types:
            errors.extend(resource_errors(value, render(path)))
        properties, other = node.properties, node.additional
        for name, part in value.items():
            if type(part) is not dict and type(part) is not list:
                continue
            if (child := properties.get(name)) is not None:
                _collect(definitions, child, part, path=step(path, name), list_types=list_types, errors=errors)
            elif isinstance(other, Node):
                _collect(definitions, other, part, path=(path, f"[{name}]"), list_types=list_types, errors=errors)
    elif type(value) is list:
        if list_types and node.list_type in {"map", "set"} and not is_unique(node, value):
            errors.extend(list_errors(node, value, render(path)))
        if node.items is not None:
            for index, element in enumerate(value):
                if type(element) is dict or type(element) is list:
                    _collect(definitions, node.items, element, path=(path, f"[{index}]"), list_types=list_types, errors=errors)
