"""Typed objects: classes that describe a kind, and their way from and to decoded JSON.

A class describes a kind by its attribute `__resource__`, which has `group`, `version`, `plural`, `kind` and `namespaced`. Its fields
are those of a Pydantic model or of a dataclass; other names in JSON are aliases (`Field(alias=...)`, of a dataclass in `Annotated`).
Objects keep what their class does not know: a decoded object remembers the JSON that it was made from, and its changes are put into that.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import ApiResource

if TYPE_CHECKING:
    from kcp_py.client.adapters import Adapter

T = TypeVar("T")

_sources: dict[int, tuple[weakref.ref[Any], Mapping[str, Any]]] = {}
"""By the id of a decoded object: the JSON that it was made from."""


class ResourceKind(NamedTuple):
    """The resource that a class describes, for kinds that a server has already: `__resource__ = ResourceKind(...)`."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    kind: str
    namespaced: bool


def described(model: type) -> ApiResource:
    """The resource that a class describes.

    Raises:
        TypeError: it describes none.
    """
    found = getattr(model, "__resource__", None)
    if found is None:
        if not isinstance(model, type):
            raise TypeError(f"{model!r} is neither a GroupVersionResource nor a class that describes a resource")
        raise TypeError(f"{model.__qualname__} describes no resource: it has no attribute __resource__; decorate it with @resource")
    key = GroupVersionResource(found.group, found.version, found.plural)
    return ApiResource(key, found.kind, found.namespaced)


def is_model(value: object) -> bool:
    """Whether a class, or an object of it, describes a resource."""
    return hasattr(value if isinstance(value, type) else type(value), "__resource__")


def decode(model: type[T], obj: Mapping[str, Any]) -> T:
    """An object of a class.

    Raises:
        ValueError: the JSON does not fit the class (`pydantic.ValidationError`).
    """
    made: T = _adapter(model).load(obj)
    key = id(made)
    with suppress(TypeError):  # objects of a class with __slots__ are like copies
        _sources[key] = weakref.ref(made, lambda _: _sources.pop(key, None)), obj
    return made


def source_of(instance: object) -> Mapping[str, Any] | None:
    """The JSON that an object was made from; None where that is not known, as of a copy."""
    reference, obj = _sources.get(id(instance), (None, None))
    return obj if reference is not None and reference() is instance else None


def encode(instance: object, *, source: Mapping[str, Any] | None = None, set_only: bool = False) -> dict[str, Any]:
    """The JSON of an object, with apiVersion and kind.

    Args:
        instance: of a class that describes a resource.
        source: the JSON into which the changes of the object are put; None for that which it was made from, if any.
        set_only: without the fields of a Pydantic model that were not set, for apply configurations.
    """
    model = type(instance)
    resource = described(model)
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if set_only:
        return {**head, **_adapter(model).dump(instance, set_only=True)}
    known = source if source is not None else source_of(instance)
    if known is None:
        return {**head, **_adapter(model).dump(instance)}
    adapter = _adapter(model)
    merged = merge(known, adapter.dump(adapter.load(known)), adapter.dump(instance))
    assert isinstance(merged, dict)
    return {**head, **merged}


def merge(source: Any, before: Any, after: Any) -> Any:
    """Put the change from one value to another into a third one, of which the first was a part.

    Elements of lists correspond by position where the lists are equally long, else by `name`, `type` or `key`, or by equality.
    """
    if before == after:
        return source
    if isinstance(source, Mapping) and isinstance(before, Mapping) and isinstance(after, Mapping):
        kept = {name: value for name, value in source.items() if name in after or name not in before}
        changed = {
            name: merge(source[name], before[name], value) if name in source and name in before else value
            for name, value in after.items()
            if name not in before or before[name] != value
        }
        return {**kept, **changed}
    if isinstance(source, list) and isinstance(before, list) and isinstance(after, list) and len(source) == len(before):
        if len(before) == len(after) and [_name(one) for one in before] == [_name(one) for one in after]:
            return [merge(*three) for three in zip(source, before, after, strict=True)]
        return [_element(source, before, one) for one in after]
    return after


def _element(source: list[Any], before: list[Any], after: Any) -> Any:
    for original, known in zip(source, before, strict=True):
        if known == after or (_name(after) is not None and _name(known) == _name(after)):
            return merge(original, known, after)
    return after


def _name(element: Any) -> Any:
    """The identity of an element among those of a list."""
    if isinstance(element, Mapping):
        for key in ("name", "type", "key", "uid"):
            if isinstance(element.get(key), str):
                return key, element[key]
    return None


def _adapter(model: Any) -> Adapter:
    from kcp_py.client.adapters import adapter_of  # noqa: PLC0415 - few programs use typed objects, and Pydantic is large

    return adapter_of(model)
