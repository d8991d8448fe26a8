"""`TypedWrites`: what a function gets of a write whose parameters are objects of a class."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Sequence
from types import NoneType
from typing import Any, Final, Literal, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.client.models import decode, described, encode, is_model, merge
from kcp_py.library.functions import name_of, wrong_result
from kcp_py.library.types.conversion import converted
from kcp_py.library.types.described import TypedResource
from kcp_py.library.types.problems import problems_in
from kcp_py.registry.admission import Attributes

Object = dict[str, Any]
Role = Literal["object", "old", "attributes"]
_OF_ATTRIBUTES: Final = "attributes"


class Given(NamedTuple):
    """What a function got of one write."""

    arguments: dict[str, Any]
    instance: Any
    """The object."""
    obj: Object
    """What it was made from, in the version of the class."""


class TypedWrites:
    """The parameters of a function that takes objects of a class.

    A parameter with the type `Attributes`, or with that name, gets the attributes of the write. One with the name `old` gets the object
    before the write, or None. The remaining one gets the object: of a deletion, that which is deleted.
    """

    def __init__(self, function: Callable[..., Any], model: type, roles: dict[str, Role]) -> None:
        self._function = function
        self._model = model
        self._resource = described(model)
        self._roles = roles

    @property
    def resource(self) -> str:
        """As rules name it."""
        key = self._resource.resource
        return f"{key.resource}.{key.group}" if key.group else key.resource

    def check(self, resources: Sequence[str], operations: Collection[str]) -> None:
        """Compare with a rule.

        Raises:
            TypeError: the rule matches other resources, or requests without an object of the class.
        """
        others = [one for one in resources if one.partition("/")[0] != self.resource]
        if others:
            raise TypeError(f"{name_of(self._function)} takes {self._model.__name__}, which is not the object of {', '.join(others)}")
        if {"CONNECT", "*"} & {*([operations] if isinstance(operations, str) else operations)}:
            raise TypeError(f"{name_of(self._function)} takes {self._model.__name__}, which CONNECT does not have: take Attributes")

    def give(self, attributes: Attributes) -> Given:
        """The arguments for a write.

        Raises:
            StatusError: 422, the object does not fit the class.
            TypeError: the write is one of another kind, or of a version that the class has no conversion for.
        """
        whole = attributes.obj if attributes.obj is not None else attributes.old
        if whole is None:
            raise TypeError(f"{name_of(self._function)} takes {self._model.__name__}, and the write has no object")
        obj = self._in_version(whole, attributes)
        if problems := problems_in(self._model, obj):
            raise errors.invalid(attributes.kind.group_kind, attributes.name, problems)
        instance: Any = decode(self._model, obj)
        values: dict[Role, Any] = {"object": instance, "attributes": attributes}
        if "old" in self._roles.values():
            old = attributes.old
            values["old"] = None if old is None else decode(self._model, self._in_version(old, attributes))
        return Given({name: values[role] for name, role in self._roles.items()}, instance, obj)

    def take(self, attributes: Attributes, given: Given, result: Any) -> None:
        """Put what a mutating function has changed into the object of the write, in place.

        Raises:
            TypeError: the result is not an object of the class.
        """
        obj = attributes.obj
        if result is not None and (obj is None or not isinstance(result, self._model)):
            raise wrong_result(self._function, result, "None" if obj is None else f"None or {self._model.__name__}")
        if obj is None:
            return
        after = encode(given.instance if result is None else result, source=given.obj)
        source, target = self._source(attributes), getattr(self._model, "__resource__", None)
        if after != given.obj and source is not None and source is not target:
            assert isinstance(target, TypedResource)
            after = merge(obj, converted(given.obj, target, source), converted(after, target, source))
        obj.clear()
        obj.update(after)

    def _in_version(self, obj: Object, attributes: Attributes) -> Object:
        """An object in the version of the class."""
        if (kind := obj.get("kind", self._resource.kind)) != self._resource.kind:
            raise TypeError(f"{name_of(self._function)} takes {self._model.__name__}, and the object has the kind {kind}")
        source, target = self._source(attributes), getattr(self._model, "__resource__", None)
        if source is None or source is target:
            return obj
        assert isinstance(target, TypedResource)
        return converted({"apiVersion": source.api_version, **obj}, source, target)

    def _source(self, attributes: Attributes) -> TypedResource | None:
        """The version of a write; None where it is that of the class."""
        version, target = attributes.kind.version, getattr(self._model, "__resource__", None)
        if version == self._resource.resource.version:
            return None
        for one in target.versions if isinstance(target, TypedResource) else ():
            if one.version == version:
                return one
        own = f"{self._resource.kind} of {self._resource.api_version}"
        raise TypeError(f"{name_of(self._function)} takes {own}, and the write is in version {version}")


def typed_writes(function: Callable[..., Any], model: type | None = None) -> TypedWrites | None:
    """The parameters of a function; None if it takes `Attributes` alone.

    Args:
        function: of `mutating` or `validating`.
        model: a class that describes a resource, if the decorator names one.

    Raises:
        TypeError: a parameter cannot be filled, or the annotation of the first one is not known at run time.
    """
    if not callable(function):
        return None  # `functions.caller` says so
    parameters = inspect.signature(function).parameters
    hints = _hints(function, parameters, model)
    models = [one for one in (_model_of(hints.get(name)) for name in parameters) if one is not None]
    if model is None and not models:
        return None
    own = model or models[0]
    if others := [one for one in models if one is not own]:
        raise TypeError(f"{name_of(function)} takes {own.__name__} and {others[0].__name__}: a write has objects of one class")
    roles: dict[str, Role] = {}
    for name, parameter in parameters.items():
        role: Role | None = None
        if name == _OF_ATTRIBUTES or hints.get(name) is Attributes:
            role = "attributes"
        elif name == "old":
            role = "old"
        elif "object" not in roles.values() and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            role = "object"
        if role is not None and parameter.kind is parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name_of(function)}: the parameter {name} must be usable as a keyword")
        if role is not None:
            roles[name] = role
        elif parameter.default is parameter.empty and parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{name_of(function)}: nothing to give for the parameter {name}; there are the object, old and attributes")
    if "object" not in roles.values():
        raise TypeError(f"{name_of(function)}: no parameter takes the {own.__name__}")
    return TypedWrites(function, own, roles)


def _hints(function: Callable[..., Any], parameters: typing.Mapping[str, inspect.Parameter], model: type | None) -> dict[str, Any]:
    whole = function if inspect.isroutine(function) or inspect.isclass(function) else getattr(function, "func", type(function).__call__)
    try:
        return typing.get_type_hints(whole)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:  # names that exist for type checkers only
        first = next(iter(parameters.values()), None)
        text = "" if first is None or first.annotation is first.empty else str(first.annotation)
        if model is None and text and not text.endswith("Attributes"):
            advice = "name the class in the decorator"
            raise TypeError(f"{name_of(function)}: the annotation {text} is not known at run time ({error}); {advice}") from None
        return {}


def _model_of(annotation: Any) -> type | None:
    """The class of an annotation, which may be optional, if it describes a resource."""
    members = [one for one in typing.get_args(annotation) if one is not NoneType] or [annotation]
    return members[0] if len(members) == 1 and isinstance(members[0], type) and is_model(members[0]) else None
