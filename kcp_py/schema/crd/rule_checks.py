"""The checks of a CRD's CEL rules: whether they compile, which values they refer to, and what they may cost.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` (`ValidateCustomResourceDefinitionOpenAPISchema`)
and `cel_validation.go` (`CELSchemaContext`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, internal, invalid
from kcp_py.cel.estimate import estimate
from kcp_py.cel.limits import (
    CRD_ESTIMATE_LIMIT,
    EXPRESSION_ESTIMATE_LIMIT,
    TotalEstimate,
    cardinality,
    cost_message,
    expression_cost,
    unbounded_cardinality,
)
from kcp_py.cel.program import Program
from kcp_py.schema.crd.printing import invalid_struct, printed_rule
from kcp_py.schema.rules.compilation import CompiledRule, compile_rules
from kcp_py.schema.rules.declared_types import Declarations
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural.nodes import Node, Rule

__all__ = ["rule_errors"]

_MANY: Final = 200
"""Problems of a schema beyond which its rules are not checked."""
_CORRELATED_MAPS: Final = frozenset({"", "granular", "atomic"})
_UNTYPED: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


def rule_errors(
    root: Node, path: str, tree: RuleNode | None, problems: Sequence[FieldError], *, suppress_cost: bool = False
) -> list[FieldError]:
    """The problems of the rules of a whole schema, in upstream's order: those of children first.

    Args:
        root: the schema; structural, with valid defaults.
        path: of the schema, `spec.validation.openAPIV3Schema`.
        tree: the compiled rules of the schema.
        problems: the other problems of the schema. Rules at and above such a problem are not checked.
        suppress_cost: whether the cost of single expressions is not limited, because they were accepted before.
    """
    if len(problems) > _MANY:
        return []
    checks = _Checks({problem.field for problem in problems}, suppress_cost=suppress_cost)
    checks.node(root, path, tree, outer=1, fixed="")
    return checks.errors + checks.total_errors(path)


class _Checks:
    """One walk over one schema."""

    def __init__(self, problems: set[str], *, suppress_cost: bool) -> None:
        """Begin.

        Args:
            problems: the fields with other problems.
            suppress_cost: see `rule_errors`.
        """
        self._problems = problems
        self._suppress_cost = suppress_cost
        self._total = TotalEstimate()
        self._declarations = Declarations()
        self.errors: list[FieldError] = []

    def total_errors(self, path: str) -> list[FieldError]:
        """The problems of all rules together: their total cost."""
        if self._total.total <= CRD_ESTIMATE_LIMIT:
            return []
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors = [forbidden(place, detail) for place, _ in self._total.most_expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [*errors, forbidden(path, cost_message(name, self._total.total, CRD_ESTIMATE_LIMIT))]

    def node(self, node: Node, path: str, tree: RuleNode | None, *, outer: int | None, fixed: str) -> None:
        """Check a node's children, then its own rules.

        Args:
            node: the node.
            path: of the node.
            tree: its compiled rules; None where CEL does not know the type of the node.
            outer: how often its parent can exist in one object; None: without limit.
            fixed: the outermost place below which no old value can be correlated; empty: none.
        """
        if not node.has_rules:
            return
        inner = cardinality(outer, _most(node))
        if isinstance(node.additional, Node):
            self.node(node.additional, f"{path}.additionalProperties", tree and tree.values, outer=inner, fixed=fixed)
        within = fixed or ("" if node.map_type in _CORRELATED_MAPS else path)
        for name, child in node.properties.items():
            self.node(child, f"{path}.properties[{name}]", tree and tree.properties.get(name), outer=inner, fixed=within)
        within = fixed or ("" if node.list_type == "map" else path)
        if node.items is not None:
            self.node(node.items, f"{path}.items", tree and tree.items, outer=inner, fixed=within)
        if node.rules and not self._is_blocked(path):
            self._rules(node, path, tree, times=outer, fixed=fixed)

    def _is_blocked(self, path: str) -> bool:
        """Whether there is another problem at or below a node."""
        return any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in self._problems)

    def _rules(self, node: Node, path: str, tree: RuleNode | None, *, times: int | None, fixed: str) -> None:
        """Check the rules of one node."""
        path = f"{path}.x-kubernetes-validations"
        if tree is not None:
            compiled, size = tree.rules, tree.min_size
        else:
            declared = self._declarations.of(node, resource=node.embedded)
            if declared is None:
                self.errors.append(internal(path, _UNTYPED))
                return
            compiled, size = compile_rules(declared.type, node), declared.min_size
        unbounded = unbounded_cardinality(size)
        for index, (rule, result) in enumerate(zip(node.rules, compiled, strict=True)):
            self._rule(rule, result, f"{path}[{index}]", times=times, unbounded=unbounded)
            self._references(rule, result, f"{path}[{index}]", fixed)

    def _rule(self, rule: Rule, result: CompiledRule, path: str, *, times: int | None, unbounded: int) -> None:
        """Check that a rule and its message compile, and what they cost."""
        if result.program is not None:
            cost = expression_cost(_largest(result.program), times, unbounded)
            self._cost(f"{path}.rule", "estimated rule cost", cost)
        if result.error:
            self.errors.append(_invalid_rule(f"{path}.rule", rule, result.error))
        if result.message_error:
            self.errors.append(_invalid_rule(f"{path}.messageExpression", rule, result.message_error))
        elif result.message_program is not None:
            self._cost(f"{path}.messageExpression", "estimated messageExpression cost", _largest(result.message_program))

    def _cost(self, path: str, name: str, cost: int) -> None:
        """Add the cost of an expression."""
        if cost > EXPRESSION_ESTIMATE_LIMIT and not self._suppress_cost:
            self.errors.append(forbidden(path, cost_message(name, cost, EXPRESSION_ESTIMATE_LIMIT)))
        self._total.add(path, cost)

    def _references(self, rule: Rule, result: CompiledRule, path: str, fixed: str) -> None:
        """Check whether a rule may refer to the old value."""
        if result.transition:
            if fixed:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {fixed}"
                self.errors.append(invalid(f"{path}.rule", rule.rule, detail))
        elif (optional := rule.optional_old_self) is not None:
            self.errors.append(invalid(f"{path}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule"))


def _most(node: Node) -> int | None:
    """How often a child can exist for each time that its parent does; None: without limit."""
    match node.kind:
        case "object" if node.additional is not None:
            limit = node.max_properties
        case "array":
            limit = node.max_items
        case _:
            return 1
    return None if limit is None else int(limit)


def _largest(program: Program) -> int:
    """The highest estimated cost of an expression."""
    return estimate(program.checked).max


def _invalid_rule(path: str, rule: Rule, detail: str) -> FieldError:
    """An error that prints the whole rule."""
    return invalid_struct(path, printed_rule(rule), detail)
