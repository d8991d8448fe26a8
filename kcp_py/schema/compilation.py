"""`compile_schema`: from an OpenAPI v3 document to the three functions of `contract.CompiledSchema`.

The document becomes a tree of shared `Node`s; each function compiles its closures from it when it is first asked for, so a schema that is
only published costs no closures. Everything is a pure function of the document: safe to share between clusters by content.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.golang.regexp import SearchTooLongError, searches
from kcp_py.schema.rules.tree import RuleNode, compile_tree
from kcp_py.schema.structural.correlated import Correlated
from kcp_py.schema.structural.default import MAX_FILLED, Allowance, DefaultCompiler, Filler, TooManyDefaultsError, copy_value
from kcp_py.schema.structural.embedded import first_type_error
from kcp_py.schema.structural.nodes import META_FIELDS, Node, SchemaTooDeepError, read_schema
from kcp_py.schema.structural.predicate import Predicate, PredicateCompiler
from kcp_py.schema.structural.prune import Clean, CleanCompiler, Pruner
from kcp_py.schema.structural.report import NO_FIELD, Reporter, structure_errors
from kcp_py.schema.structural.settled import Settler, can_settle
from kcp_py.schema.structural.strictness import strict_errors
from kcp_py.schema.structural.visitor import nodes_of
from kcp_py.schema.structural.widths import exceeds, pattern_weight, width

__all__ = ["SchemaTooDeepError", "StructuralSchema", "compile_schema"]

MAX_VALUE_DEPTH: Final = 256
"""Nesting of values under a recursive schema. Under any other the schema's own depth bounds every walk."""

MAX_PRINTED_DEPTH: Final = 240
"""Nesting of values whose errors are reported in full: errors print values."""


WIDE: Final = 100
"""Nodes that check one value. Up to this number, the product with the size of any body is affordable."""

MAX_CHECKS: Final = 100_000_000
"""The largest product of nodes for one value and bytes of a body."""


def compile_schema(
    document: Mapping[str, Any], *, definitions: Mapping[str, Mapping[str, Any]] | None = None, custom: bool = True
) -> StructuralSchema:
    """Compile one version's schema.

    Args:
        document: the `openAPIV3Schema`, or the schema of a built-in kind. It is read, never kept or changed.
        definitions: what `$ref: "#/definitions/NAME"` and `"#/components/schemas/NAME"` stand for; they may refer to themselves.
        custom: whether it is a CRD's: apiVersion, kind and metadata of the root are then implicit and left alone.

    Raises:
        SchemaTooDeepError: nested deeper than any schema has reason to be.
    """
    typed = not custom
    read = {name: read_schema(part, typed=typed) for name, part in (definitions or {}).items()}
    root = read_schema(document, typed=typed)
    return StructuralSchema(root, read, custom=custom, rules=compile_tree(root, document) if custom else None)


class StructuralSchema:
    """A `contract.CompiledSchema`."""

    def __init__(self, root: Node, definitions: Mapping[str, Node], *, custom: bool, rules: RuleNode | None = None) -> None:
        self.rules = rules
        """See `contract.CompiledSchema.rules`."""
        self.root = root
        """The tree of nodes, for other uses: list maps, CEL rules, managed fields."""
        self.definitions = definitions
        self._custom = custom
        self._recursive = bool(definitions)
        # Upstream treats every root as an embedded resource when it prunes. The metadata of a built-in kind has a schema of its own.
        self._implicit = META_FIELDS if custom else META_FIELDS - root.properties.keys()
        self._skipped_defaults = META_FIELDS if custom else frozenset()

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """See `contract.CompiledSchema.prune`."""
        if (self._recursive and is_deeper(obj, MAX_VALUE_DEPTH)) or self._clean(obj):
            return []
        pruner = Pruner(self.definitions)
        pruner.prune(self.root, obj, skip=self._implicit)
        return pruner.dropped(custom=self._custom)

    def strict_errors(self, document: Any) -> list[str]:
        """See `contract.CompiledSchema.strict_errors`."""
        return strict_errors(self.root, self.definitions, document)

    def type_error(self, obj: dict[str, Any]) -> FieldError | None:
        """See `contract.CompiledSchema.type_error`."""
        return first_type_error(self.root, obj, "") if self._custom and self.has_embedded else None

    def default(self, obj: dict[str, Any], limit: int = MAX_FILLED) -> None:
        """See `contract.CompiledSchema.default`."""
        if self._fill is not None and not (self._recursive and is_deeper(obj, MAX_VALUE_DEPTH)):
            self._fill(obj, Allowance(limit))

    def complete(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.complete`. Custom resources are written as they are."""

    def restore_defaults(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.restore_defaults`."""
        if obj.keys() >= self._root_defaults.keys():
            return
        for name, value in self._root_defaults.items():
            if name not in obj:
                obj[name] = copy_value(value)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """See `contract.CompiledSchema.validate`."""
        if (early := self._early_errors(obj)) is not None:
            return early
        errors = Reporter(self.definitions).report(self.root, obj, was=self._correlated(obj, old))
        errors.extend(structure_errors(self.definitions, self.root, obj, "", list_types=False))
        return errors + self._list_errors(obj, old)

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """See `contract.CompiledSchema.validate_status`."""
        if (early := self._early_errors(obj)) is not None:
            return early
        errors: list[FieldError] = []
        node = self.root.properties.get("status")
        if node is not None and "status" in obj:
            both = Correlated(self.root, obj, old).key("status")
            if both is not None:
                both.top = True
            # Messages name the place inside of the status, which is a value of its own here; fields, the place in the object.
            errors.extend(
                replace(error, field="status" if error.field == NO_FIELD else f"status.{error.field}")
                for error in Reporter(self.definitions).report(node, obj["status"], was=both)
            )
        return errors + self._list_errors(obj, old)

    def _early_errors(self, obj: dict[str, Any]) -> list[FieldError] | None:
        """No errors for a valid object, or the one error that ends validation; None where the slow walk has to find the errors."""
        if self._width > WIDE and exceeds(obj, MAX_CHECKS // self._width):
            return [invalid(NO_FIELD, "", f"must not need more than {MAX_CHECKS} checks of a schema with {self._width} alternatives")]
        deep = self._recursive and is_deeper(obj, MAX_VALUE_DEPTH)
        try:
            with searches():
                if not deep and self._is_valid(obj):
                    return []
        except SearchTooLongError as error:
            return [invalid(NO_FIELD, "", str(error))]
        if deep or is_deeper(obj, MAX_PRINTED_DEPTH):
            return [invalid(NO_FIELD, "", f"must not be nested deeper than {MAX_VALUE_DEPTH if deep else MAX_PRINTED_DEPTH} levels")]
        return None

    def _correlated(self, obj: dict[str, Any], old: dict[str, Any] | None) -> Correlated | None:
        """The object paired with the old one; None for built-in kinds, which have their own rules for updates."""
        return None if old is None or not self._custom else Correlated(self.root, obj, old, top=True)

    def _list_errors(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """Errors in the types of lists. A list that was already wrong does not prevent changes of other fields."""
        if old is not None and structure_errors(self.definitions, self.root, old, "", list_types=True):
            return []
        return structure_errors(self.definitions, self.root, obj, "", list_types=True)

    def is_valid(self, obj: dict[str, Any]) -> bool:
        """Whether `validate` without an old object would find nothing."""
        return self._early_errors(obj) == []

    @cached_property
    def _width(self) -> int:
        # Schemas of built-in kinds refer to themselves, and have no alternatives.
        return 1 if self._recursive else width(self.root)

    @cached_property
    def pattern_weight(self) -> int:
        """See `contract.CompiledSchema.pattern_weight`. The patterns of built-in kinds are few and small."""
        return pattern_weight(self.root) if self._custom else 0

    @cached_property
    def _is_valid(self) -> Predicate:
        return self._predicates.child(self.root).check

    @cached_property
    def _predicates(self) -> PredicateCompiler:
        return PredicateCompiler(self.definitions)

    @cached_property
    def settler(self) -> Settler | None:
        """See `contract.CompiledSchema.settler`."""
        usual = self._custom and not self._recursive and self._width <= WIDE and can_settle(self.root)
        return Settler(self.root, self._predicates) if usual else None

    @cached_property
    def _clean(self) -> Clean:
        return CleanCompiler(self.definitions).clean(self.root, skip=self._implicit)

    @cached_property
    def _fill(self) -> Filler | None:
        return DefaultCompiler(self.definitions).compile(self.root, self._skipped_defaults)

    @cached_property
    def _root_defaults(self) -> dict[str, Any]:
        """The fields of the root that have a default, filled completely. Larger ones are refused before an object gets here."""
        filled: dict[str, Any] = {}
        with suppress(TooManyDefaultsError):
            self.default(filled)
        return filled

    @cached_property
    def has_embedded(self) -> bool:
        """See `contract.CompiledSchema.has_embedded`."""
        return any(node.embedded for node in nodes_of(self.root))


def is_deeper(value: Any, limit: int) -> bool:
    """Whether containers are nested deeper than `limit`, found without recursion."""
    level = [value]
    for _ in range(limit):
        level = [
            part
            for container in level
            for part in (container.values() if type(container) is dict else container)
            if type(part) is dict or type(part) is list
        ]
        if not level:
            return False
    return True
