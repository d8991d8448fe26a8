"""Whether the defaults in a CRD's structural schema are values of the schema they stand in.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/defaulting/validation.go`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError, aggregate, invalid
from kcp_py.cel.limits import OBJECT_BUDGET
from kcp_py.schema.rules.evaluation import evaluate
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural.default import copy_value
from kcp_py.schema.structural.embedded import first_type_error, resource_errors, type_error
from kcp_py.schema.structural.nodes import META_FIELDS, NO_DEFAULT, Node
from kcp_py.schema.structural.predicate import PredicateCompiler
from kcp_py.schema.structural.prune import CleanCompiler
from kcp_py.schema.structural.report import NO_FIELD, Reporter, structure_errors
from kcp_py.schema.structural.visitor import nodes_of

_UNKNOWN = "must not have unknown fields"
_TYPE = {"apiVersion": "validation/v1", "kind": "Validation"}


def default_errors(root: Node, path: str, tree: RuleNode | None = None, *, require_pruned: bool) -> list[FieldError]:
    """The problems of every default below `root`, which is the schema of a whole object, and has the rules of `tree`."""
    return _Defaults(require_pruned=require_pruned).errors(root, path, (), tree, inside_metadata=False, embedded=True)


def has_unpruned_defaults(root: Node) -> bool:
    """Whether a stored schema has a default with fields that the schema does not know."""
    cleaner = CleanCompiler({}, metadata=False)
    return any(node.default is not NO_DEFAULT and not _is_pruned(cleaner, node) for node in nodes_of(root))


def _is_pruned(cleaner: CleanCompiler, node: Node) -> bool:
    return type(node.default) not in {dict, list} or cleaner.clean(node)(node.default)


class _Defaults:
    def __init__(self, *, require_pruned: bool) -> None:
        self._require_pruned = require_pruned
        self._predicates = PredicateCompiler({})
        # Metadata loses its unknown fields when a default is filled in, silently.
        self._cleaner = CleanCompiler({}, metadata=False)
        self._left = OBJECT_BUDGET

    def errors(
        self, node: Node, path: str, steps: tuple[str | int, ...], tree: RuleNode | None, *, inside_metadata: bool, embedded: bool = False
    ) -> list[FieldError]:
        """Walk; `steps` lead from the nearest resource to this node. Map values are not followed, as upstream does not."""
        embedded = embedded or node.embedded
        if embedded:
            inside_metadata, steps = False, ()
        errors: list[FieldError] = []
        if node.default is not NO_DEFAULT:
            problems = self._check(node, f"{path}.default", steps, inside_metadata=inside_metadata)
            # As upstream, rules judge what lacks nothing but the knowledge of a field.
            if tree is not None and all(problem.detail == _UNKNOWN for problem in problems):
                problems.extend(self._rule_errors(tree, node.default, f"{path}.default"))
            errors.extend(problems)
        if node.items is not None:
            below = tree and tree.items
            errors.extend(self.errors(node.items, f"{path}.items", (*steps, 0), below, inside_metadata=inside_metadata))
        for name, child in node.properties.items():
            inside = inside_metadata or (embedded and name in META_FIELDS)
            below = tree and tree.properties.get(name)
            errors.extend(self.errors(child, f"{path}.properties[{name}]", (*steps, name), below, inside_metadata=inside))
        return errors

    def _rule_errors(self, tree: RuleNode, value: Any, path: str) -> list[FieldError]:
        """The rule errors of an unchanged default or, where there are none, of a new one."""
        if self._left < 0:
            return []
        place = (None, path)
        kept = evaluate(tree, value, value, limit=self._left, path=place)
        left = kept.left
        errors = kept.errors
        if not errors:
            new = evaluate(tree, value, limit=self._left, path=place)
            left, errors = min(left, new.left), new.errors
        self._left = left
        return errors

    def _check(self, node: Node, path: str, steps: tuple[str | int, ...], *, inside_metadata: bool) -> list[FieldError]:
        errors: list[FieldError] = []
        value = node.default
        if inside_metadata:
            surrounding = _surround(value, steps)
            mistyped = type_error(surrounding, "")
            problems = [mistyped] if mistyped else resource_errors(surrounding, "")
            if problems:
                return [invalid(path, value, f"must result in valid metadata: {aggregate(problems)}")]
            return self._value_errors(node, path)
        if self._require_pruned and not _is_pruned(self._cleaner, node):
            errors.append(invalid(path, value, _UNKNOWN))
        mistyped = first_type_error(node, value, path)
        resource = [mistyped] if mistyped else structure_errors({}, node, value, path, list_types=False)
        errors.extend(resource or self._value_errors(node, path))
        return errors

    def _value_errors(self, node: Node, path: str) -> list[FieldError]:
        check = self._predicates.child(node).check
        if check(node.default):
            return []
        return [
            replace(error, field=path if error.field == NO_FIELD else f"{path}.{error.field}")
            for error in Reporter({}).report(node, node.default)
        ]


def _surround(value: Any, steps: tuple[str | int, ...]) -> dict[str, Any]:
    """An object that holds `value` where `steps` lead, and a type."""
    inner = copy_value(value)
    for step in reversed(steps):
        inner = [inner] if isinstance(step, int) else {step: inner}
    return {**_TYPE, **inner}
