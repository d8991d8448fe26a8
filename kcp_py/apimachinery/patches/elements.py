"""Elements of merged lists: which of them are equal, and the order of the result.

Elements are identified by their merge key or, where a list has none, by their value. Positions are indexed, so that the work grows with the
sizes of the lists and not with their product.

Source: apimachinery `pkg/util/strategicpatch/patch.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.golang.types import go_text, go_type

_LISTS_OF_LISTS: Final = "lists of lists are not supported"
_SHOWN: Final = 300


def ordered(merged: list[Any], patch_order: Mapping[Any, int], server_order: Mapping[Any, int], key: str) -> list[Any]:
    """Elements that the patch names in its order, the others in the server's.

    One of the others goes before one of the patch's only where the server had both, in that order.
    """
    last = len(patch_order) + len(server_order)
    named: list[tuple[int, Any, Any]] = []
    others: list[tuple[int, Any, Any]] = []
    for element in merged:
        identity = element_identity(element, key)
        if identity in patch_order:
            named.append((patch_order[identity], identity, element))
        else:
            others.append((server_order.get(identity, last), identity, element))
    named.sort(key=_position_of)
    others.sort(key=_position_of)
    result: list[Any] = []
    start = 0
    for _, identity, element in named:
        before = server_order.get(identity, -1)
        while start < len(others) and others[start][0] < before:
            result.append(others[start][2])
            start += 1
        result.append(element)
    result.extend(element for _, _, element in others[start:])
    return result


def _position_of(entry: tuple[int, Any, Any]) -> int:
    return entry[0]


def positions_of(elements: Iterable[Any], key: str) -> dict[Any, int]:
    """The first position of each element, by merge key or, without one, by value."""
    positions: dict[Any, int] = {}
    for position, element in enumerate(elements):
        positions.setdefault(element_identity(element, key), position)
    return positions


def element_identity(element: Any, key: str) -> Any:
    """The identity of an element: of its merge key or, without one, of its value."""
    if not key:
        return scalar_identity(element)
    if not isinstance(element, dict):
        raise bad_type(element, {})
    return scalar_identity(key_of(element, key))


def key_of(element: Mapping[str, Any], key: str) -> Any:
    """The merge key of an element.

    Raises:
        StatusError: 400, the element has none.
    """
    if key not in element:
        raise errors.bad_request(f"map: {shown(element)} does not contain declared merge key: {key}")
    return element[key]


def scalar_identity(value: Any) -> Any:
    """The identity of a scalar by Go's equality of interfaces: 1, 1.0 and true differ.

    Raises:
        StatusError: 400, the value is an object or a list.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        raise errors.bad_request(f"{shown(value)} is not a scalar and cannot be told from others in a merged list")
    return (type(value), value)


def unique(values: list[Any]) -> list[Any]:
    """The values without repetitions: the last of equal ones stays."""
    return list({scalar_identity(value): value for value in reversed(values)}.values())[::-1]


def element_type(*lists: list[Any]) -> type:
    """The type that all elements have.

    Raises:
        StatusError: 400 where they have several, 422 for lists of lists.
    """
    found: type | None = None
    for elements in lists:
        for element in elements:
            if found is None:
                found = type(element)
                if found is list:
                    raise errors.unprocessable(_LISTS_OF_LISTS)
            elif type(element) is not found:
                raise errors.bad_request(f"list element types are not identical: {shown(list(lists))}")
    return found or type(None)


def bad_type(value: Any, wanted: Any) -> errors.StatusError:
    """The error of a value that is not of the type of `wanted`."""
    received = "%!s(<nil>)" if value is None else go_type(value)
    return errors.bad_request(f"expected a {go_type(wanted)}, but received a {received}")


def shown(value: Any) -> str:
    """A value as Go prints it in messages, shortened."""
    return cut(go_text(value))


def cut(text: str) -> str:
    """A text of a client in a message, shortened."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."
