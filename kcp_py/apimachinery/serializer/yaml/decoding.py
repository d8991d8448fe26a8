"""YAML to decoded JSON, as go-yaml v2 and sigs.k8s.io/yaml read it, from libyaml's events and without recursion.

What a document may cost is counted while it is read: nesting, nodes, and the nodes that aliases add when they are expanded, each expansion
being a copy of its own. Scalars follow YAML 1.1 as go-yaml v2 does (`yes` is true, `012` is ten, a date is a string, `=` is not a special
value); keys that are ints, floats or booleans become strings, other keys are refused. Unlike upstream, which ignores what follows the first
document, a second one that is not empty is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from kcp_py.apimachinery.serializer.decoding import MAX_DEPTH, MAX_STRICT_ERRORS, DecodeError, too_deep
from kcp_py.apimachinery.serializer.yaml.scalars import resolve
from kcp_py.golang.floats import format_float
from kcp_py.golang.quoting import go_quote

MAX_NODES: Final = 250_000
"""Scalars, maps, lists and copies of them. The largest public CRDs, of three megabytes, have a quarter of it."""
_INT64_MAX: Final = 2**63 - 1
_TAG: Final = "tag:yaml.org,2002:"
_BINARY: Final = _TAG + "binary"
_MERGE: Final = _TAG + "merge"
_TYPED: Final[dict[str, tuple[type, ...]]] = {
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
    _TAG + "null": (type(None),),
}
_MISSING: Final = object()


class _Merge:
    """Stands for the key `<<`."""


_MERGE_KEY: Final = _Merge()


class _Container:
    """A map or list that is being read."""

    __slots__ = ("anchor", "key", "nodes", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, nodes: int) -> None:
        self.value = value
        self.anchor = anchor
        self.nodes = nodes
        """How many nodes had been read when this one began."""
        self.key: Any = _MISSING


class Decoded:
    """A document, and what strict decoding has against it."""

    __slots__ = ("duplicates", "value")

    def __init__(self) -> None:
        self.value: Any = None
        self.duplicates: list[str] = []

    def strict_errors(self) -> list[str]:
        """None, or one error with all repeated keys, as go-yaml lists them."""
        return ["yaml: unmarshal errors:\n  " + "\n  ".join(self.duplicates)] if self.duplicates else []


def decode(body: bytes) -> Decoded:
    """Read one document.

    Raises:
        DecodeError: not YAML, not representable in JSON, or beyond the budgets.
    """
    try:
        return _Reader(body).read()
    except yaml.MarkedYAMLError as error:
        raise DecodeError(f"yaml: {_line_of(error)}{error.problem}") from None
    except yaml.YAMLError as error:
        text = str(error).partition("\n")[0]
        raise DecodeError(f"yaml: {'control characters are not allowed' if 'control characters' in text else text}") from None
    except UnicodeDecodeError:
        raise DecodeError("yaml: invalid UTF-8") from None


def _line_of(error: yaml.MarkedYAMLError) -> str:
    """go-yaml counts lines from one in errors of the scanner and from zero in errors of the parser, and never tells the first."""
    problem_mark: Any = error.problem_mark
    context_mark: Any = error.context_mark
    if problem_mark is not None and problem_mark.line:
        line = problem_mark.line + isinstance(error, yaml.scanner.ScannerError)
    else:
        line = context_mark.line if context_mark is not None else 0
    return f"line {line}: " if line else ""


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._decoded = Decoded()
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._stack: list[_Container] = []
        self._nodes = 0

    def read(self) -> Decoded:
        loader = yaml.CSafeLoader(self._body)
        try:
            documents = 0
            while True:
                event: Any = loader.get_event()
                kind = type(event)
                if event is None:
                    break
                if kind is ScalarEvent:
                    self._count(1)
                    if documents > 1:
                        if event.value or not event.implicit[0]:
                            raise DecodeError("yaml: expected a single document in the stream")
                        continue
                    self._add_scalar(event)
                elif kind is DocumentStartEvent:
                    documents += 1
                elif kind is MappingStartEvent or kind is SequenceStartEvent:
                    if documents > 1:
                        raise DecodeError("yaml: expected a single document in the stream")
                    self._count(1)
                    if len(self._stack) >= MAX_DEPTH:
                        raise DecodeError(f"yaml: exceeded max depth of {MAX_DEPTH}")
                    self._stack.append(_Container({} if kind is MappingStartEvent else [], event.anchor, self._nodes))
                elif kind is MappingEndEvent or kind is SequenceEndEvent:
                    container = self._stack.pop()
                    nodes = self._nodes - container.nodes + 1
                    if container.anchor is not None:
                        self._anchors[container.anchor] = (container.value, nodes)
                    self._add(container.value, event)
                elif kind is AliasEvent:
                    self._add_alias(event)
        finally:
            loader.dispose()
        return self._decoded

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise DecodeError(f"yaml: document has more than {MAX_NODES} nodes")

    def _add_scalar(self, event: Any) -> None:
        text = event.value
        implicit = event.implicit[0]
        tag = event.tag
        value = text if tag is None and not implicit else resolve(text) if tag is None else _tagged(tag, text)
        stack = self._stack
        if stack and type(stack[-1].value) is dict and stack[-1].key is _MISSING:
            if text == "<<" and (implicit or tag == _MERGE):
                value = _MERGE_KEY
            elif value is None:
                raise DecodeError("unsupported map key of type: %!s(<nil>), key: <nil>")
        elif type(value) is int:
            if value > _INT64_MAX:
                value = float(value)
        elif type(value) is float:
            value = _as_json_number(value)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, event)

    def _add_alias(self, event: Any) -> None:
        if any(container.anchor == event.anchor for container in self._stack):
            raise DecodeError(f"yaml: anchor '{event.anchor}' value contains itself")
        anchored = self._anchors.get(event.anchor)
        if anchored is None:
            raise DecodeError(f"yaml: unknown anchor '{event.anchor}' referenced")
        value, nodes = anchored
        try:
            self._count(nodes)
        except DecodeError:
            raise DecodeError("yaml: document contains excessive aliasing") from None
        if too_deep(value, MAX_DEPTH - len(self._stack)):
            raise DecodeError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        self._add(_copy(value), event)

    def _add(self, value: Any, event: Any) -> None:
        if not self._stack:
            self._decoded.value = value
            return
        container = self._stack[-1]
        target = container.value
        if type(target) is list:
            target.append(value)
            return
        key = container.key
        if key is _MISSING:
            if isinstance(value, dict | list):
                go_type = "map[interface {}]interface {}" if isinstance(value, dict) else "[]interface {}"
                raise DecodeError(f"yaml: invalid map key: {go_type}")
            container.key = value
            return
        container.key = _MISSING
        if key is _MERGE_KEY:
            for source in _merge_sources(value):
                for merged, item in source.items():
                    self._set(target, merged, item, event)
        else:
            self._set(target, key, value, event)

    def _set(self, target: Any, key: Any, value: Any, event: Any) -> None:
        name = key if type(key) is str else _key_text(key)
        if name in target and len(self._decoded.duplicates) < MAX_STRICT_ERRORS:
            shown = go_quote(key) if type(key) is str else name
            self._decoded.duplicates.append(f"line {event.start_mark.line + 1}: key {shown} already set in map")
        target[name] = value


def _tagged(tag: str, text: str) -> Any:
    if tag == _BINARY:
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            raise DecodeError("yaml: !!binary value contains invalid base64 data") from None
    wanted = _TYPED.get(tag)
    if wanted is None:
        return text
    value: Any = resolve(text)
    # bool is a subclass of int in Python alone.
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise DecodeError(f"yaml: cannot decode {_short_tag(value)} `{text}` as a {tag.replace(_TAG, '!!')}")
    return float(value) if float in wanted and type(value) is int else value


def _short_tag(value: Any) -> str:
    match value:
        case None:
            return "!!null"
        case bool():
            return "!!bool"
        case int():
            return "!!int"
        case float():
            return "!!float"
        case _:
            return "!!str"


def _as_json_number(value: float) -> Any:
    """What the value is after Go has written it as JSON and read it again: whole numbers are ints."""
    if value != value or value in {float("inf"), float("-inf")}:  # noqa: PLR0124  # NaN
        shown = format_float(value).replace(".inf", "Inf").replace(".nan", "NaN")
        raise DecodeError(f"json: unsupported value: {shown if shown[0] in '-N' else '+' + shown}")
    return int(value) if value.is_integer() and abs(value) <= _INT64_MAX else value


def _key_text(key: Any) -> str:
    match key:
        case bool():
            return "true" if key else "false"
        case int():
            if key > _INT64_MAX:
                raise DecodeError(f"unsupported map key of type: uint64, key: {key:#x}")
            return str(key)
        case _:
            return format_float(key, 32)


def _merge_sources(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value]
    # The first of several has precedence, so that it is applied last.
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return value[::-1]
    raise DecodeError("yaml: map merge requires map or sequence of maps as the value")


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value
