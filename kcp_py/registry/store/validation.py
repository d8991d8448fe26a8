"""Validation of an object that is to be stored: metadata, schema, the kind's own rules, CEL rules, in upstream's order.

Source: k8s.io/apiextensions-apiserver `pkg/registry/customresource/strategy.go`.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakSet

from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import MAX_CAUSES
from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apimachinery.meta.objectmeta import (
    keeps_valid,
    unqualified_finalizer_problems,
    validate_object_meta,
    validate_object_meta_update,
)
from kcp_py.bootstrap.unenforced import UNENFORCED, unenforced_warning
from kcp_py.registry.resource import ServedResource, view_of
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.views import View
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.rules.evaluation import evaluate
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural.correlated import ABSENT

__all__ = ["check"]

_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_MALFORMED: Final = frozenset({"FieldValueRequired", "FieldValueTypeInvalid"})
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)
_WARM: Final[WeakSet[RuleNode]] = WeakSet()
"""The rules that were evaluated before, so that their code exists."""
_FREED_AT_ONCE: Final = 5000
"""Problems that are freed on the event loop in one piece."""


async def check(
    resource: ServedResource,
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    warnings: list[str],
    *,
    subresource: str = "",
    size: int = 0,
    sound: bool = False,
    settled: dict[str, Any] | None = None,
) -> None:
    """Refuse an invalid object.

    Args:
        resource: of the object.
        obj: in the served version.
        old: the stored object on update, in the same version.
        warnings: gets the texts for the client.
        subresource: through which it is updated.
        size: the approximate size of the object in bytes; large objects are validated in a thread.
        sound: whether the metadata of `old` are known to be valid.
        settled: what the settler of the schema has found of the object, of an update of the object itself.

    Raises:
        StatusError: 422 with every problem.
    """
    metadata = obj["metadata"]
    strategy = resource.strategy
    schema = resource.schema
    many = size > Inline.TRANSFORM
    large = many or size * schema.pattern_weight > Inline.PATTERN_STEPS
    if sound and old is not None and keeps_valid(metadata, old["metadata"]):
        problems: list[FieldError] = []
    elif many:
        problems = await offload(_metadata_problems, resource, metadata, old)
    else:
        problems = _metadata_problems(resource, metadata, old)
    view = view_of(resource, subresource)
    if old is not None and view.keeps_metadata:
        violations = await offload(_status_violations, schema, obj, old) if large else schema.validate_status(obj, old)
        problems += violations
        if not _is_malformed(resource, violations):
            problems += strategy.validate_status_update(obj, old)
        heavy = False
    else:
        unchanged = view.status_alone and old is not None and obj.get("spec") is old.get("spec")
        if settled is not None and not large and (settler := schema.settler) is not None and settler.is_valid(obj, settled):
            violations = []
        elif large:
            violations = await offload(_violations, view, schema, obj, old)
        else:
            violations = view.violations(schema, obj, old)
        problems += violations
        heavy = not unchanged and (many or strategy.is_heavy(obj))
        if _is_malformed(resource, violations):
            pass
        elif heavy:
            problems += await offload(_strategy_violations, strategy, obj, old, subresource)
        else:
            problems += _strategy_violations(strategy, obj, old, subresource)
    rules = resource.schema.rules
    if rules is not None:
        problems += await _rule_problems(resource.schema, rules, obj, old, problems=problems, warnings=warnings)
    if problems:
        name = metadata.get("name")
        raise errors.invalid(_group_kind(resource), name if isinstance(name, str) else "", problems)
    warnings.extend(await offload(strategy.warnings, obj, old) if heavy else strategy.warnings(obj, old))
    if not subresource and resource.group_resource in UNENFORCED:
        warnings.append(unenforced_warning(*resource.group_resource))


def _is_malformed(resource: ServedResource, violations: list[FieldError]) -> bool:
    """Whether the rules of the kind do not take an object of such a form. The decoder has checked the types of typed kinds."""
    if not violations or resource.typed or resource.strategy.checks_malformed:
        return False
    return any(problem.reason in _MALFORMED for problem in violations)


def _group_kind(resource: ServedResource) -> str:
    group = resource.strategy.error_group
    return resource.group_version_kind.group_kind if group is None else GroupVersionKind(group, "", resource.kind).group_kind


def _metadata_problems(resource: ServedResource, metadata: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    problems = validate_object_meta(metadata, namespaced=resource.namespaced, validate_name=resource.strategy.validate_name)
    if old is not None:
        problems += validate_object_meta_update(metadata, old["metadata"], is_valid=not problems)
    if "finalizers" in metadata and resource.strategy.qualifies_finalizers:
        problems += unqualified_finalizer_problems(metadata["finalizers"] or ())
    return problems and _first(problems)


def _violations(view: View, schema: CompiledSchema, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
    return _first(view.violations(schema, obj, old))


def _status_violations(schema: CompiledSchema, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
    return _first(schema.validate_status(obj, old))


def _strategy_violations(strategy: Strategy, obj: dict[str, Any], old: dict[str, Any] | None, subresource: str) -> list[FieldError]:
    if old is None:
        problems = strategy.validate(obj)
    elif subresource:
        problems = strategy.validate_subresource_update(obj, old, subresource)
    else:
        problems = strategy.validate_update(obj, old)
    return problems and _first(problems)


def _first(problems: list[FieldError]) -> list[FieldError]:
    """As many problems as are reported, and one more. The rest is freed in steps: the interpreter's lock is held while a list is freed."""
    while len(problems) > MAX_CAUSES + 1:
        del problems[max(MAX_CAUSES + 1, len(problems) - _FREED_AT_ONCE) :]
    return problems


async def _rule_problems(
    schema: CompiledSchema,
    rules: RuleNode,
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    *,
    problems: list[FieldError],
    warnings: list[str],
) -> list[FieldError]:
    """What the CEL rules say, unless the object is not even of the types that they were checked for."""
    if any(problem.reason in _BLOCKING for problem in problems):
        return [invalid("<nil>", None, _NOT_CHECKED)]
    before = ABSENT if old is None else old
    if rules.count > Inline.EXPRESSIONS and rules not in _WARM:
        # The first run of a rule makes its code.
        outcome = await offload(evaluate, rules, obj, before, schema=schema.root)
        _WARM.add(rules)
    else:
        outcome = evaluate(rules, obj, before, schema=schema.root, limit=Inline.EXPRESSION_COST)
        if outcome.exhausted:
            outcome = await offload(evaluate, rules, obj, before, schema=schema.root)
    warnings.extend(outcome.warnings)
    return outcome.errors
