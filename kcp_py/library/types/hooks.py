"""`HookStrategy`: the hooks of a resource as the rules of a stored one. What the class of an object does not know is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.client.models import decode, encode, merge
from kcp_py.library.functions import wrong_result
from kcp_py.library.types.conversion import converted
from kcp_py.library.types.described import HOOKS, TypedResource
from kcp_py.library.types.problems import has_validators, problems_of
from kcp_py.registry.custom_resources import CustomResourceStrategy
from kcp_py.schema.structural.report import NO_FIELD

Object = dict[str, Any]


class HookStrategy(CustomResourceStrategy):
    """Runs the hooks of a version. Those of the hub run for writes of each version, on the converted object."""

    def __init__(self, described: TypedResource, hub: TypedResource | None) -> None:
        """Run hooks.

        Args:
            described: the version.
            hub: what the version is converted to; None where hooks of the hub do not apply.
        """
        super().__init__({"subresources": {"scale": described.scale} if described.scale is not None else {}})
        self._described = described
        self._hub = hub

    @cached_property
    def does_anything(self) -> bool:
        """Whether there are hooks or validators."""
        return self._has_validators or any(self._has(name) for name in HOOKS)

    @cached_property
    def _has_validators(self) -> bool:
        return has_validators(self._described.model)

    def _has(self, *names: str) -> bool:
        resources = [self._described] if self._hub is None else [self._described, self._hub]
        return any(resource.hooks(name) for resource in resources for name in names)

    def prepare_for_create(self, obj: Object) -> None:
        """Hooks `default` and `prepare_for_create`."""
        self._change(obj, None, "default", "prepare_for_create")

    def prepare_for_update(self, obj: Object, old: Object) -> None:
        """Hooks `default` and `prepare_for_update`."""
        self._change(obj, old, "default", "prepare_for_update")

    def validate(self, obj: Object) -> list[FieldError]:
        """Validators of Pydantic, and the hook `validate_create`."""
        return [*super().validate(obj), *self._problems(obj, None, "validate_create")]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        """Validators of Pydantic, and the hook `validate_update`, or `validate_create` where there is no such hook."""
        name = "validate_update" if self._has("validate_update") else "validate_create"
        return [*super().validate(obj), *self._problems(obj, old, name)]

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        """The hook `validate_status_update`."""
        return [*super().validate_status_update(obj, old), *self._problems(obj, old, "validate_status_update")]

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """The hook `warnings`."""
        found = super().warnings(obj, old)
        for described, one, before in self._views(obj, old) if self._has("warnings") else ():
            for function in described.hooks("warnings"):
                found.extend(_texts(function(decode(described.model, one), before and decode(described.model, before)), function))
        return found

    def check_delete(self, obj: Object) -> str:
        """The hook `validate_delete`."""
        for described, one, _ in self._views(obj, None) if self._has("validate_delete") else ():
            for function in described.hooks("validate_delete"):
                if text := "; ".join(_texts(function(decode(described.model, one)), function)):
                    return text
        return ""

    def _views(self, obj: Object, old: Object | None) -> Iterable[tuple[TypedResource, Object, Object | None]]:
        """The versions whose hooks see a write, with the objects in them."""
        yield self._described, obj, old
        if self._hub is not None:
            yield self._hub, converted(obj, self._described, self._hub), old and converted(old, self._described, self._hub)

    def _change(self, obj: Object, old: Object | None, *names: str) -> None:
        if not self._has(*names):
            return
        if any(_is_malformed(self._described, one) for one in (obj, old) if one is not None):
            return  # validation follows, and refuses it
        _run_changes(self._described, obj, old, names)
        if self._hub is None or not any(self._hub.hooks(name) for name in names):
            return
        before = converted(obj, self._described, self._hub)
        after = converted(obj, self._described, self._hub)
        _run_changes(self._hub, after, old and converted(old, self._described, self._hub), names)
        if before != after:
            changed = merge(obj, converted(before, self._hub, self._described), converted(after, self._hub, self._described))
            obj.clear()
            obj.update(changed)

    def _problems(self, obj: Object, old: Object | None, name: str) -> list[FieldError]:
        if not self._has_validators and not self._has(name):
            return []
        if (found := problems_of(self._described, obj)) is not None:
            return found
        problems: list[FieldError] = []
        if not self._has(name):
            return problems
        for described, one, before in self._views(obj, old):
            functions = described.hooks(name)
            arguments: list[Any] = (
                [decode(described.model, before)] if functions and before is not None and name != "validate_create" else []
            )
            for function in functions:
                problems += _field_errors(function, decode(described.model, one), *arguments)
        return problems


def _is_malformed(described: TypedResource, obj: Object) -> bool:
    try:
        decode(described.model, obj)
    except ValueError:
        return True
    return False


def _run_changes(described: TypedResource, obj: Object, old: Object | None, names: tuple[str, ...]) -> None:
    """Run hooks that change an object, and put their changes into it, in place."""
    functions = [(name, function) for name in names for function in described.hooks(name)]
    if not functions:
        return
    instance: Any = decode(described.model, obj)
    for name, function in functions:
        arguments: list[Any] = [decode(described.model, old)] if name == "prepare_for_update" and old is not None else []
        found = function(instance, *arguments)
        if found is not None and not isinstance(found, described.model):
            raise wrong_result(function, found, f"None, or an object of {described.model.__name__} that takes the place of the one it got")
        instance = instance if found is None else found
    changed = encode(instance, source=obj)
    identity = {name: value for name, value in obj["metadata"].items() if name not in _CHANGED_BY_HOOKS}
    changed["metadata"] = {**identity, **{name: changed["metadata"][name] for name in _CHANGED_BY_HOOKS if name in changed["metadata"]}}
    obj.clear()
    obj.update(changed)


_CHANGED_BY_HOOKS: Final = ("annotations", "finalizers", "labels", "ownerReferences")
"""The metadata that hooks change. All else is that of the server."""


def _field_errors(function: Callable[..., Any], *arguments: Any) -> list[FieldError]:
    """The problems that a validating hook returns or, as a ValueError, raises."""
    try:
        found = function(*arguments)
    except ValueError as error:
        found = str(error)
    if found is None:
        return []
    problems = []
    for one in [found] if isinstance(found, str | FieldError | Mapping) else found:
        if not isinstance(one, str | FieldError):
            raise wrong_result(function, one, "a text, a FieldError, or a sequence of them")
        problems.append(one if isinstance(one, FieldError) else FieldError(reason="FieldValueInvalid", field=NO_FIELD, detail=one))
    return problems


def _texts(found: Any, function: Callable[..., Any]) -> list[str]:
    texts: list[Any] = [] if found is None else [found] if isinstance(found, str | Mapping) else list(found)
    for one in texts:
        if not isinstance(one, str):
            raise wrong_result(function, one, "texts")
    return texts
