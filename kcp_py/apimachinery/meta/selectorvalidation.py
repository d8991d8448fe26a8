"""The problems of label selectors in objects (k8s.io/apimachinery `pkg/apis/meta/v1/validation`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.objectmeta import label_problems


def selector_problems(selector: Mapping[str, Any], path: str) -> list[FieldError]:
    """The problems of a label selector."""
    problems = label_problems(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(selector.get("matchExpressions") or ()):
        here = f"{path}.matchExpressions[{index}]"
        operator, values, key = expression.get("operator", ""), expression.get("values") or (), expression.get("key", "")
        match operator:
            case "In" | "NotIn":
                if not values:
                    problems.append(required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
            case "Exists" | "DoesNotExist":
                if values:
                    text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                    problems.append(forbidden(f"{here}.values", text))
            case _:
                problems.append(invalid(f"{here}.operator", operator, "not a valid selector operator"))
        problems += [invalid(f"{here}.key", key, text) for text in names.qualified_name_problems(key)]
        problems += [
            invalid(f"{here}.values[{position}]", value, text)
            for position, value in enumerate(values)
            for text in names.label_value_problems(value)
        ]
    return problems
