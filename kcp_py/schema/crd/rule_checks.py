"""The CEL rules of a definition that is written: whether they compile, what they may refer to, and what they may cost.

Source: k8s.io/apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go` (`ValidateCustomResourceDefinitionOpenAPISchema`)
and `cel_validation.go` (`CELSchemaContext`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, internal, invalid
from kcp_py.cel.estimate import estimate
from kcp_py.cel.limits import (
    DEFINITION_ESTIMATE_LIMIT,
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
from kcp_py.schema.rules.tree import RuleNode, has_rules

__all__ = ["rule_errors"]

Schema = Mapping[str, Any]

_MANY: Final = 200
"""Problems of a schema beyond which its rules are not looked at."""
_CORRELATED_MAPS: Final = frozenset({None, "granular", "atomic"})
_UNTYPED: Final = (
    "internal error: failed to construct type information for x-kubernetes-validations rules: "
    "unable to convert structural schema to CEL declarations"
)


def rule_errors(
    schema: Schema, path: str, tree: RuleNode | None, problems: Sequence[FieldError], *, suppress_cost: bool = False
) -> list[FieldError]:
    """What is wrong with the rules of a whole schema, in upstream's order: those of children first.

    Args:
        schema: the document; structural, with valid defaults.
        path: of the document, `spec.validation.openAPIV3Schema`.
        tree: its rules, compiled.
        problems: what else is wrong with the schema: rules at and above a fault are not judged.
        suppress_cost: whether single expressions may cost what they want, as those do that were accepted before.
    """
    if len(problems) > _MANY:
        return []
    checks = _Checks({problem.field for problem in problems}, suppress_cost=suppress_cost)
    checks.node(schema, path, tree, outer=1, fixed="", untyped=False)
    return checks.errors + checks.total_errors(path)


class _Checks:
    """One walk over one schema."""

    def __init__(self, problems: set[str], *, suppress_cost: bool) -> None:
        """Begin.

        Args:
            problems: where something else is wrong.
            suppress_cost: see `rule_errors`.
        """
        self._problems = problems
        self._suppress_cost = suppress_cost
        self._total = TotalEstimate()
        self._declarations = Declarations()
        self.errors: list[FieldError] = []

    def total_errors(self, path: str) -> list[FieldError]:
        """What is wrong with all rules together."""
        if self._total.total <= DEFINITION_ESTIMATE_LIMIT:
            return []
        detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        errors = [forbidden(place, detail) for place, _ in self._total.most_expensive]
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        return [*errors, forbidden(path, cost_message(name, self._total.total, DEFINITION_ESTIMATE_LIMIT))]

    def node(self, schema: object, path: str, tree: RuleNode | None, *, outer: int | None, fixed: str, untyped: bool) -> None:
        """A node's children, then its own rules.

        Args:
            schema: the node.
            path: of the node.
            tree: its rules, where CEL can see what it is.
            outer: how often its parent can be there in one object; None: as often as fits.
            fixed: the outermost place below which no old value can be told; empty: none.
            untyped: whether CEL does not know what it is a part of.
        """
        if not isinstance(schema, Mapping) or (tree is None and not untyped and not has_rules(schema)):
            return
        inner = cardinality(outer, _most(schema))
        untyped = tree is None
        values, items = (tree.values, tree.items) if tree is not None else (None, None)
        self.node(schema.get("additionalProperties"), f"{path}.additionalProperties", values, outer=inner, fixed=fixed, untyped=untyped)
        within = fixed or ("" if schema.get("x-kubernetes-map-type") in _CORRELATED_MAPS else path)
        for name, child in (schema.get("properties") or {}).items():
            below = tree.properties.get(name) if tree is not None else None
            self.node(child, f"{path}.properties[{name}]", below, outer=inner, fixed=within, untyped=untyped)
        within = fixed or ("" if schema.get("x-kubernetes-list-type") == "map" else path)
        self.node(schema.get("items"), f"{path}.items", items, outer=inner, fixed=within, untyped=untyped)
        rules = schema.get("x-kubernetes-validations")
        if rules and not self._is_blocked(path):
            self._rules(schema, rules, path, tree, times=outer, fixed=fixed)

    def _is_blocked(self, path: str) -> bool:
        """Whether something else is wrong at or below a node."""
        return any(field == path or field.startswith((f"{path}.", f"{path}[")) for field in self._problems)

    def _rules(
        self, schema: Schema, rules: Sequence[Mapping[str, Any]], path: str, tree: RuleNode | None, *, times: int | None, fixed: str
    ) -> None:
        """The rules of one node."""
        path = f"{path}.x-kubernetes-validations"
        if tree is not None:
            compiled, size = tree.rules, tree.min_size
        else:
            declared = self._declarations.of(schema, resource=bool(schema.get("x-kubernetes-embedded-resource")))
            if declared is None:
                self.errors.append(internal(path, _UNTYPED))
                return
            compiled, size = compile_rules(rules, declared.type, schema), declared.min_size
        unbounded = unbounded_cardinality(size)
        for index, (rule, result) in enumerate(zip(rules, compiled, strict=True)):
            self._rule(rule, result, f"{path}[{index}]", times=times, unbounded=unbounded)
            self._references(rule, result, f"{path}[{index}]", fixed)

    def _rule(self, rule: Mapping[str, Any], result: CompiledRule, path: str, *, times: int | None, unbounded: int) -> None:
        """Whether a rule and its message compile, and what they cost."""
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
        """Count what an expression costs."""
        if cost > EXPRESSION_ESTIMATE_LIMIT and not self._suppress_cost:
            self.errors.append(forbidden(path, cost_message(name, cost, EXPRESSION_ESTIMATE_LIMIT)))
        self._total.add(path, cost)

    def _references(self, rule: Mapping[str, Any], result: CompiledRule, path: str, fixed: str) -> None:
        """Whether a rule may speak of the old value."""
        if result.transition:
            if fixed:
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {fixed}"
                self.errors.append(invalid(f"{path}.rule", rule.get("rule") or "", detail))
        elif (optional := rule.get("optionalOldSelf")) is not None:
            self.errors.append(invalid(f"{path}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule"))


def _most(schema: Schema) -> int | None:
    """How often a child can be there for each time that its parent is; None: as often as fits."""
    match schema.get("type"):
        case "object" if schema.get("additionalProperties") is not None:
            limit = schema.get("maxProperties")
        case "array":
            limit = schema.get("maxItems")
        case _:
            return 1
    return None if limit is None else int(limit)


def _largest(program: Program) -> int:
    """What an expression costs at most."""
    return estimate(program.checked).max


def _invalid_rule(path: str, rule: Mapping[str, Any], detail: str) -> FieldError:
    """An error that prints the whole rule."""
    return invalid_struct(path, printed_rule(rule), detail)
