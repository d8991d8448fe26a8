"""Dropping the fields that a schema does not know.

Two steps: a closure per node answers whether there is anything to drop, at the price of a dictionary look-up per field; only then does a
walk with paths drop it. Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/pruning/algorithm.go` and
`pkg/apiserver/schema/objectmeta`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.schema.structural.embedded import is_loose_metadata, prune_metadata
from kcp_py.schema.structural.nodes import META_FIELDS, Node
from kcp_py.schema.structural.places import Path, render, step
from kcp_py.schema.structural.visitor import References

Clean = Callable[[Any], bool]

MAX_PATHS: Final = 100
"""Dropped fields that are named; the rest is dropped silently."""


class CleanCompiler:
    """Makes the closures that tell whether a container holds nothing unknown."""

    def __init__(self, definitions: Mapping[str, Node], *, metadata: bool = True) -> None:
        """Begin without closures. Without `metadata`, unknown fields in the metadata of embedded resources are ignored."""
        self._references: References[Clean] = References(definitions)
        self._metadata = metadata
        self._made: dict[tuple[int, bool], Clean] = {}

    def clean(self, node: Node, *, keep: bool = False, skip: frozenset[str] = frozenset()) -> Clean:
        """The closure of a node. With `keep`, unknown fields stay, as below a list that preserves them; those in `skip` are passed over."""
        if node.ref:
            return self._references.closure(node.ref, lambda definition: self.clean(definition, keep=keep), keep)
        if skip:
            return self._compile(node, keep=keep, skip=skip)
        key = (id(node), keep)
        if (made := self._made.get(key)) is None:
            made = self._made[key] = self._compile(node, keep=keep, skip=META_FIELDS if node.embedded else skip)
        return made

    def _compile(self, node: Node, *, keep: bool, skip: frozenset[str]) -> Clean:
        keep = keep or node.preserve
        children: dict[str, Clean] = {name: self.clean(part) for name, part in node.properties.items() if name not in skip}
        known = {**children, **dict.fromkeys(skip, _anything)}
        if isinstance(node.additional, Node):
            other: Clean | None = self.clean(node.additional)
        elif node.additional is not None:
            other = _is_empty
        else:
            other = _anything if keep else None
        without = _anything if keep else _is_empty
        item = without if node.items is None else self.clean(node.items, keep=keep)
        embedded = node.embedded and self._metadata
        names, find = known.keys(), known.get

        def clean(value: Any) -> bool:
            if type(value) is dict:
                if other is None and not value.keys() <= names:
                    return False
                for name, part in value.items():
                    kind = type(part)
                    if (kind is dict or kind is list) and not (known[name] if other is None else find(name, other))(part):
                        return False
                return not (embedded and is_loose_metadata(value.get("metadata")))
            if type(value) is list:
                for part in value:
                    kind = type(part)
                    if (kind is dict or kind is list) and not item(part):
                        return False
            return True

        return clean


def _anything(_value: Any) -> bool:
    return True


def _is_empty(value: Any) -> bool:
    """Whether nothing would be dropped where there is no schema at all: there every field of every object is unknown."""
    pending = [value]
    while pending:
        current = pending.pop()
        if type(current) is dict:
            if current:
                return False
        elif type(current) is list:
            pending.extend(part for part in current if type(part) is dict or type(part) is list)
    return True


class Pruner:
    """One pruning of one value, in place."""

    def __init__(self, definitions: Mapping[str, Node]) -> None:
        self._definitions = definitions
        self._fields: list[str] = []
        self._metadata: list[str] = []
        self._silent = False

    def dropped(self, *, custom: bool) -> list[str]:
        """The paths of dropped fields.

        Those of custom resources are sorted, as upstream does; it prunes the metadata of embedded ones in a second pass. Decoders of typed
        kinds tell them as they come.
        """
        return [*sorted(self._fields), *sorted(self._metadata)] if custom else self._fields

    def prune(self, node: Node, value: Any, path: Path = None, *, skip: frozenset[str] = frozenset(), keep: bool = False) -> None:
        """Drop what `node` does not know. `skip` names fields that are not looked at, `keep` leaves the unknown ones."""
        if node.ref:
            node = self._definitions[node.ref]
        if node.lenient and not self._silent:
            self._silent = True
            self.prune(node, value, path, skip=skip, keep=keep)
            self._silent = False
            return
        keep = keep or node.preserve
        if type(value) is dict:
            if node.embedded:
                skip = META_FIELDS
                metadata_path = step(path, "metadata")
                prune_metadata(value.get("metadata"), lambda name: self._drop(step(metadata_path, name), self._metadata))
            for name in list(value):
                if name in skip:
                    continue
                part = value[name]
                part_path = step(path, name)
                if (child := node.properties.get(name)) is not None:
                    if type(part) is dict or type(part) is list:
                        self.prune(child, part, part_path)
                elif isinstance(node.additional, Node):
                    self.prune(node.additional, part, part_path)
                elif node.additional is not None:
                    self._empty(part, part_path)
                elif not keep:
                    del value[name]
                    self._drop(part_path)
        elif type(value) is list:
            for index, part in enumerate(value):
                if node.items is not None:
                    self.prune(node.items, part, (path, f"[{index}]"), keep=keep)
                elif not keep:
                    self._empty(part, (path, f"[{index}]"))

    def _empty(self, value: Any, path: Path) -> None:
        """Prune without a schema: lists stay, objects lose every field."""
        pending = [(value, path)]
        while pending:
            current, current_path = pending.pop()
            if type(current) is dict:
                for name in current:
                    self._drop(step(current_path, name))
                current.clear()
            elif type(current) is list:
                pending.extend((part, (current_path, f"[{index}]")) for index, part in reversed(list(enumerate(current))))

    def _drop(self, path: Path, dropped: list[str] | None = None) -> None:
        if not self._silent and len(self._fields) + len(self._metadata) < MAX_PATHS:
            (self._fields if dropped is None else dropped).append(render(path))
