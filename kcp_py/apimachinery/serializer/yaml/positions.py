"""Lines of fields in a YAML or JSON document: from a field path as errors name it to the line where it stands.

Field paths are those of upstream's errors: `spec.containers[0].name`, `metadata.annotations[example.com/x]`,
`spec.versions[0].schema.openAPIV3Schema.properties[a.b].type`. A path that is not in the document leads to the nearest parent that is.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

_MERGE: Final = "<<"
_LINE_BREAK: Final = re.compile(rb"\r\n|[\n\r]|\xc2\x85|\xe2\x80[\xa8\xa9]")


class Position:
    """A value in a document.

    Attributes:
        line: of its key, or of itself where it has none; counted from one.
        members: of a map, by key; of a list, by index; None for a scalar.
    """

    __slots__ = ("line", "members")

    def __init__(self, line: int, members: dict[str, Position] | list[Position] | None = None) -> None:
        self.line = line
        self.members = members

    def find(self, path: str) -> Position:
        """The value at a path, or the nearest parent that is there."""
        position = self
        while path:
            step = _step(position, path)
            if step is None:
                return position
            position, path = step
        return position


def positions(body: bytes) -> Position:
    """The positions of a document. One that is not YAML has its first line only."""
    try:
        return _read(body)
    except (yaml.YAMLError, UnicodeDecodeError):
        return Position(1)


def _step(position: Position, path: str) -> tuple[Position, str] | None:
    """One step along a path: the next value and the rest of the path."""
    members = position.members
    if path[0] == "[":
        key, bracket, rest = path[1:].partition("]")
        if not bracket:
            return None
        # A key may hold brackets itself; the longest that fits counts.
        while isinstance(members, dict) and key not in members and "]" in rest:
            more, _, rest = rest.partition("]")
            key += "]" + more
        return _next(_member(members, key), rest)
    if not isinstance(members, dict):
        return None
    # Keys may hold dots: the longest member that the path begins with.
    fitting = [key for key in members if path.startswith(key) and path[len(key) : len(key) + 1] in {"", ".", "["}]
    if not fitting:
        return None
    key = max(fitting, key=len)
    return _next(members[key], path[len(key) :])


def _next(found: Position | None, rest: str) -> tuple[Position, str] | None:
    return None if found is None else (found, rest.removeprefix("."))


def _member(members: dict[str, Position] | list[Position] | None, key: str) -> Position | None:
    if isinstance(members, dict):
        return members.get(key)
    if isinstance(members, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(members):
        return members[int(key)]
    return None


class _Open:
    """A map or list that is being read."""

    __slots__ = ("anchor", "key", "position")

    def __init__(self, position: Position, anchor: str | None) -> None:
        self.position = position
        self.anchor = anchor
        self.key: tuple[str, int] | None = None


def _read(body: bytes) -> Position:
    anchors: dict[str, Position] = {}
    stack: list[_Open] = []
    root = Position(1)
    # libyaml places an empty value at the end of the document on the line below it.
    last_line = len(_LINE_BREAK.findall(body)) + 1
    loader = yaml.CSafeLoader(body)
    try:
        while (event := _event(loader)) is not None:
            kind = type(event)
            line = min(event.start_mark.line + 1, last_line)
            if kind is MappingStartEvent or kind is SequenceStartEvent:
                members: dict[str, Position] | list[Position] = {} if kind is MappingStartEvent else []
                stack.append(_Open(Position(line, members), event.anchor))
                continue
            if kind is ScalarEvent:
                if stack and isinstance(stack[-1].position.members, dict) and stack[-1].key is None:
                    stack[-1].key = (event.value, line)
                    continue
                found = Position(line)
                if event.anchor is not None:
                    anchors[event.anchor] = found
            elif kind is AliasEvent:
                found = anchors.get(event.anchor, Position(line))
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                closed = stack.pop()
                found = closed.position
                if closed.anchor is not None:
                    anchors[closed.anchor] = found
            else:
                continue
            if not stack:
                return found
            _add(stack[-1], found, line=line)
    finally:
        loader.dispose()
    return root


def _event(loader: Any) -> Any:
    return loader.get_event()


def _add(container: _Open, found: Position, *, line: int) -> None:
    members = container.position.members
    if isinstance(members, list):
        members.append(found)
        return
    assert members is not None
    if container.key is None:
        container.key = ("", line)  # a map or list as a key, which decoding refuses
        return
    key, key_line = container.key
    container.key = None
    if key == _MERGE:
        for source in found.members if isinstance(found.members, list) else [found]:
            for merged, position in source.members.items() if isinstance(source.members, dict) else ():
                members.setdefault(merged, position)
        return
    # The key's line: a value may begin below it. What an alias stands for is shared, and has its own lines inside.
    members[key] = Position(key_line, found.members)
