"""Labels, annotations, and selectors of labels and nodes.

Source: k8s.io/apimachinery `pkg/apis/meta/v1/validation`, kubernetes `pkg/apis/core/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, required
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.objectmeta import label_problems
from kcp_py.apimachinery.meta.selectorvalidation import selector_problems
from kcp_py.apis.upstream.validation.fields import Object, Problems, label, name, qualified

_VALUES_NEEDED: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_BAD_OPERATOR: Final = "not a valid selector operator"


def labels(values: Object | None, path: str) -> Problems:
    """Labels, or the labels that a selector asks for."""
    if values:
        yield from label_problems(values, path)


def annotation_keys(values: Object | None, path: str) -> Problems:
    """Keys of annotations."""
    for key in values or ():
        for text in names.qualified_name_problems(key.lower()):
            yield invalid(path, key, text)


def selector(value: Object | None, path: str) -> Problems:
    """A label selector, where there is one."""
    if value:
        yield from selector_problems(dict(value), path)


def node_selector(value: Object, path: str) -> Problems:
    """A selector of nodes that has to have terms."""
    terms = value.get("nodeSelectorTerms") or ()
    here = f"{path}.nodeSelectorTerms"
    if not terms:
        yield required(here, "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_selector_term(term, f"{here}[{index}]", checks_values=True)


def node_selector_term(term: Object, path: str, *, checks_values: bool) -> Problems:
    """One of the alternatives of a selector of nodes."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        yield from _node_requirement(requirement, f"{path}.matchExpressions[{index}]", checks_values=checks_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field_requirement(requirement, f"{path}.matchFields[{index}]")


def _node_requirement(requirement: Object, path: str, *, checks_values: bool) -> Problems:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    match operator:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", _VALUES_NEEDED)
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden(f"{path}.values", _NO_VALUES)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case _:
            yield invalid(f"{path}.operator", operator, _BAD_OPERATOR)
    yield from qualified(requirement.get("key", ""), f"{path}.key")
    if checks_values:
        for index, value in enumerate(values):
            yield from name(value, f"{path}.values[{index}]", names.label_value_problems)


def _field_requirement(requirement: Object, path: str) -> Problems:
    operator, key, values = requirement.get("operator", ""), requirement.get("key", ""), requirement.get("values") or ()
    if operator not in {"In", "NotIn"}:
        yield invalid(f"{path}.operator", operator, _BAD_OPERATOR)
    elif len(values) != 1:
        yield required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from name(value, f"{path}.values[{index}]")


def match_label_keys(holder: Object, path: str) -> Problems:
    """`matchLabelKeys` and `mismatchLabelKeys`, together with the label selector."""
    keys, others, chosen = holder.get("matchLabelKeys") or (), holder.get("mismatchLabelKeys") or (), holder.get("labelSelector")
    yield from _label_keys(keys, f"{path}.matchLabelKeys", chosen)
    yield from _label_keys(others, f"{path}.mismatchLabelKeys", chosen)
    if chosen is not None and keys:
        positions = {key: index for index, key in enumerate(keys)}
        seen = set(chosen.get("matchLabels") or ())
        for expression in chosen.get("matchExpressions") or ():
            key = expression.get("key", "")
            if key in positions and key in seen:
                yield invalid(f"{path}[{positions[key]}]", key, "exists in both matchLabelKeys and labelSelector")
            seen.add(key)
    excluded = frozenset(others)
    for index, key in enumerate(keys):
        if key in excluded:
            yield invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _label_keys(keys: Sequence[str], path: str, chosen: Object | None) -> Problems:
    if keys and chosen is None:
        yield forbidden(path, "must not be specified when labelSelector is not set")
        return
    for index, key in enumerate(keys):
        yield from qualified(key, f"{path}[{index}]")


def namespaces(values: Sequence[str] | None, path: str) -> Problems:
    """Names of namespaces."""
    for value in values or ():
        yield from label(value, path)


def topology_terms(terms: Sequence[Object], path: str) -> Problems:
    """The parts of a cluster in which volumes may be: selectors of labels of nodes (`ValidateTopologySelectorTerm`)."""
    seen: list[dict[str, frozenset[str]]] = [{} for _ in terms]  # so that an empty term counts as a duplicate
    for index, term in enumerate(terms):
        here = f"{path}[{index}].matchLabelExpressions"
        found: dict[str, frozenset[str]] = {}
        for position, expression in enumerate(term.get("matchLabelExpressions") or ()):
            key, values, place = expression.get("key", ""), expression.get("values") or (), f"{here}[{position}]"
            if not values:
                yield required(f"{place}.values")
            chosen: set[str] = set()
            for number, value in enumerate(values):
                if value in chosen:
                    yield duplicate(f"{place}.values[{number}]", value)
                chosen.add(value)
            yield from qualified(key, f"{place}.key")
            if key in found:
                yield duplicate(f"{place}.key", key)
            found[key] = frozenset(chosen)
        if found in seen:
            yield duplicate(here, "")
        seen.append(found)
