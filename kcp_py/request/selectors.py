"""`RequestSelectors`: the selectors of a request or of an access review, for authorizers that decide by them. Pure.

A selector narrows a request. Requirements that cannot be read are left out, which makes the question broader and is therefore safe.

Source: k8s.io/apiserver `pkg/endpoints/filters/authorization.go` and `plugin/pkg/authorizer/webhook/webhook.go`; kubernetes
`pkg/registry/authorization/util/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.meta.fieldselectors import parse_field_selector
from kcp_py.apimachinery.meta.selectors import label_selector_of, parse_label_selector

_FIELD_OPERATORS: Final = {"=": "In", "!=": "NotIn"}
_LABEL_OPERATORS: Final = {"in": "In", "=": "In", "==": "In", "notin": "NotIn", "!=": "NotIn", "exists": "Exists", "!": "DoesNotExist"}
"""Of requirements in a selector, without `gt` and `lt`: the API has no names for these."""


class SelectorRequirement(NamedTuple):
    """A requirement as `resourceAttributes` of an access review has it."""

    key: str
    operator: str
    """`In`, `NotIn`, `Exists` or `DoesNotExist`."""
    values: tuple[str, ...] = ()


class Requirements(NamedTuple):
    """The requirements of a selector that can be read."""

    items: tuple[SelectorRequirement, ...] = ()
    failed: bool = False
    """Whether the selector, or one of its requirements, cannot be read."""


NO_REQUIREMENTS: Final = Requirements()


class RequestSelectors(NamedTuple):
    """The selectors of a request: their texts, or for access reviews the requirements. They are parsed when they are asked for."""

    field: str | Requirements = ""
    label: str | Requirements = ""

    def field_requirements(self) -> Requirements:
        """The requirements of the field selector."""
        if isinstance(self.field, Requirements):
            return self.field
        try:
            found = parse_field_selector(self.field).requirements
        except ValueError:
            return Requirements(failed=True)
        return Requirements(tuple(SelectorRequirement(one.field, _FIELD_OPERATORS[one.operator], (one.value,)) for one in found))

    def label_requirements(self) -> Requirements:
        """The requirements of the label selector."""
        if isinstance(self.label, Requirements):
            return self.label
        try:
            found = parse_label_selector(self.label).requirements
        except ValueError:
            return Requirements(failed=True)
        return Requirements(
            tuple(
                SelectorRequirement(one.key, _LABEL_OPERATORS[one.operator], one.values)
                for one in found
                if one.operator in _LABEL_OPERATORS
            )
        )


def review_selectors(attributes: Mapping[str, Any]) -> RequestSelectors | None:
    """The selectors of `resourceAttributes`; None without any."""
    field, label = attributes.get("fieldSelector"), attributes.get("labelSelector")
    if not field and not label:
        return None
    return RequestSelectors(_review_selector(field or {}, _field_requirement), _review_selector(label or {}, _label_requirement))


def _review_selector(selector: Mapping[str, Any], read: Any) -> str | Requirements:
    given = selector.get("requirements")
    if not given:
        return str(selector.get("rawSelector") or "")
    found = [read(one) for one in given]
    return Requirements(tuple(one for one in found if one is not None), None in found)


def _field_requirement(given: Mapping[str, Any]) -> SelectorRequirement | None:
    """A requirement, None for one that field selectors do not have: they compare with one value."""
    values = tuple(given.get("values") or ())
    if given.get("operator") not in {"In", "NotIn"} or len(values) != 1:
        return None
    return SelectorRequirement(given.get("key") or "", given["operator"], values)


def _label_requirement(given: Mapping[str, Any]) -> SelectorRequirement | None:
    """A requirement, None for one that label selectors do not have."""
    try:
        (found,) = label_selector_of({"matchExpressions": [given]}).requirements
    except ValueError:
        return None
    return SelectorRequirement(found.key, given["operator"], found.values)
