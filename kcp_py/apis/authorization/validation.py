"""What access reviews have to say, checked before they are answered. Pure.

Source: kubernetes `pkg/apis/authorization/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required
from kcp_py.apimachinery.meta import names

_ONE_OF_TWO: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_ATTRIBUTES: Final = "spec.resourceAttributes"


def self_review_problems(review: Mapping[str, Any]) -> list[FieldError]:
    """The problems of a SelfSubjectAccessReview."""
    return [*_attributes_problems(_spec(review)), *_selector_problems(_spec(review)), *_metadata_problems(review)]


def review_problems(review: Mapping[str, Any]) -> list[FieldError]:
    """The problems of a SubjectAccessReview."""
    return [*_subject_problems(_spec(review)), *_metadata_problems(review)]


def local_review_problems(review: Mapping[str, Any]) -> list[FieldError]:
    """The problems of a LocalSubjectAccessReview."""
    spec = _spec(review)
    namespace = (review.get("metadata") or {}).get("namespace", "")
    problems = _subject_problems(spec)
    problems += _metadata_problems(review, ignored=("namespace",), text="must be empty except for namespace")
    attributes = spec.get("resourceAttributes")
    if attributes is not None and attributes.get("namespace", "") != namespace:
        problems.append(invalid(f"{_ATTRIBUTES}.namespace", attributes.get("namespace", ""), "must match metadata.namespace"))
    if spec.get("nonResourceAttributes") is not None:
        problems.append(
            invalid("spec.nonResourceAttributes", _printed(spec["nonResourceAttributes"]), "disallowed on this kind of request")
        )
    return problems


def _spec(review: Mapping[str, Any]) -> Mapping[str, Any]:
    return review.get("spec") or {}


def _attributes_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    given = spec.get("nonResourceAttributes")
    return [invalid("spec", _printed(given), _ONE_OF_TWO)] if (given is None) is (spec.get("resourceAttributes") is None) else []


def _printed(attributes: Mapping[str, Any] | None) -> Any:
    """The attributes as upstream prints its internal type."""
    return None if attributes is None else {"Path": attributes.get("path", ""), "Verb": attributes.get("verb", "")}


def _subject_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    problems = _attributes_problems(spec)
    if not spec.get("user") and not spec.get("groups"):
        problems.append(invalid("spec.user", spec.get("user", ""), "at least one of user or group must be specified"))
    return [*problems, *_selector_problems(spec)]


def _metadata_problems(review: Mapping[str, Any], *, ignored: tuple[str, ...] = (), text: str = "must be empty") -> list[FieldError]:
    metadata = {name: value for name, value in (review.get("metadata") or {}).items() if value and name != "managedFields"}
    return [invalid("metadata", metadata, text)] if metadata.keys() - set(ignored) else []


def _selector_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    attributes = spec.get("resourceAttributes") or {}
    problems: list[FieldError] = []
    for field, of_labels in (("fieldSelector", False), ("labelSelector", True)):
        selector, path = attributes.get(field), f"{_ATTRIBUTES}.{field}"
        if selector is None:
            continue
        raw, requirements = selector.get("rawSelector"), selector.get("requirements")
        if raw and requirements:
            problems.append(invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements"))
        if not raw and not requirements:
            problems.append(required(f"{path}.requirements", f"when {path} is specified, requirements or rawSelector is required"))
        for index, requirement in enumerate(requirements or ()):
            problems += _requirement_problems(requirement, f"{path}.requirements[{index}]", of_labels=of_labels)
    return problems


def _requirement_problems(requirement: Mapping[str, Any], path: str, *, of_labels: bool) -> list[FieldError]:
    """The problems of one requirement. Operators that are not known are left to those who know them."""
    key, operator, values = requirement.get("key", ""), requirement.get("operator", ""), requirement.get("values") or ()
    problems = []
    if not key and not of_labels:
        problems.append(required(f"{path}.key", "must be specified"))
    if operator in {"In", "NotIn"} and not values:
        problems.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    if operator in {"Exists", "DoesNotExist"} and values:
        problems.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    if of_labels:
        problems += [invalid(f"{path}.key", key, text) for text in names.qualified_name_problems(key)]
        problems += [
            invalid(f"{path}.values[{index}]", value, text)
            for index, value in enumerate(values)
            for text in names.label_value_problems(value)
        ]
    return problems
