"""Functions of a program as admission plugins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any, TypeVar

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.client.models import is_model
from kcp_py.library.functions import caller, check_parameters, name_of, wrong_result
from kcp_py.library.rules import Rule, RuleSettings
from kcp_py.library.typedwrites import Given, TypedWrites, typed_writes
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes

ValidationResult = str | Sequence[FieldError] | None
"""None where the write is allowed; a text, with which it is forbidden (403), or the errors of fields (422)."""
MutationResult = dict[str, Any] | None
"""None where the object was changed in place or not at all; or the object that takes its place."""

ValidatingFunction = Callable[[Attributes], ValidationResult | Awaitable[ValidationResult]] | Callable[..., Any]
"""Takes `Attributes`, or objects of a class: see `TypedWrites`."""
MutatingFunction = Callable[[Attributes], MutationResult | Awaitable[MutationResult]] | Callable[..., Any]
"""As a validating one. It returns an object of the class, where it takes one."""


class _Hook(AdmissionPlugin):
    """A function that sees the writes of a rule."""

    def __init__(
        self, function: Callable[..., Any], rule: Rule, *, thread: bool = False, name: str = "", writes: TypedWrites | None = None
    ) -> None:
        """Adapt a function.

        Args:
            function: takes `Attributes`.
            rule: which writes it sees.
            thread: see `functions.caller`.
            name: by which operators switch it off; that of the function where it is empty.
            writes: its parameters, if it takes objects of a class.

        Raises:
            TypeError: see `functions.caller`.
        """
        if writes is None:
            check_parameters(function, "attributes")
        self._writes = writes
        self._function = function
        self._call = caller(function, thread=thread)
        self._rule = rule
        self.name = name or name_of(function)  # type: ignore[misc] # each object stands for a function of its own
        self.operations = rule.operations
        self.resources = rule.resources

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        return self._rule.ignores(cluster, resource)

    def follow(self, changed: Callable[[], None]) -> bool:
        del changed
        return True

    def _ask(self, attributes: Attributes) -> Awaitable[None] | None:
        if not self._rule.matches(attributes):
            return None
        given = None if self._writes is None else self._writes.give(attributes)
        result = self._call(attributes.cluster, attributes) if given is None else self._call(attributes.cluster, **given.arguments)
        if isawaitable(result):
            return self._wait(attributes, given, result)
        self._take(attributes, given, result)
        return None

    async def _wait(self, attributes: Attributes, given: Given | None, pending: Awaitable[Any]) -> None:
        self._take(attributes, given, await pending)

    def _take(self, attributes: Attributes, given: Given | None, result: Any) -> None:
        """Do what the result says."""


class MutatingHook(_Hook):
    """A function that changes objects."""

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Call the function, if the write matches."""
        return self._ask(attributes)

    def _take(self, attributes: Attributes, given: Given | None, result: Any) -> None:
        if self._writes is not None and given is not None:
            self._writes.take(attributes, given, result)
            return
        obj = attributes.obj
        if result is None or result is obj:
            return
        if not isinstance(result, dict) or obj is None:
            raise wrong_result(self._function, result, "None" if obj is None else "None or an object")
        # The callers hold the object itself.
        changed = dict(result)
        obj.clear()
        obj.update(changed)


class ValidatingHook(_Hook):
    """A function that refuses writes."""

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Call the function, if the write matches.

        Raises:
            StatusError: 403 or 422, as the function says.
        """
        return self._ask(attributes)

    def _take(self, attributes: Attributes, given: Given | None, result: Any) -> None:
        del given
        if result is None:
            return
        if isinstance(result, str):
            if result:
                raise errors.forbidden(attributes.resource.group_resource, attributes.name, result)
            return
        if not isinstance(result, (list, tuple)) or not all(isinstance(one, FieldError) for one in result):
            raise wrong_result(self._function, result, "None, a text or a list of field errors")
        if result:
            kind = attributes.kind
            raise errors.invalid(f"{kind.kind}.{kind.group}" if kind.group else kind.kind, attributes.name, result)


H = TypeVar("H", bound=_Hook)


def hooks(kind: type[H], resources: Sequence[str | type], settings: RuleSettings, *, thread: bool, name: str) -> Callable[[Any], H]:
    """Make hooks of functions.

    Args:
        kind: `MutatingHook` or `ValidatingHook`.
        resources: as `Rule` takes them, or one class that describes a resource. Without any, that of the class which a function takes.
        settings: the other arguments of `Rule`.
        thread: see `functions.caller`.
        name: see the hook.

    Raises:
        ValueError: an argument has no meaning.
        TypeError: more than one class, or one that describes no resource; the function raises further ones, see `typed_writes`.
    """
    classes = [one for one in resources if not isinstance(one, str)]
    names = [one for one in resources if isinstance(one, str)]
    if classes and (len(classes) > 1 or names):
        raise TypeError("a rule has names of resources, or one class")
    if classes and not is_model(classes[0]):
        raise TypeError(f"{classes[0]!r} describes no resource")
    rule = Rule(names, **settings)

    def make(function: Any) -> H:
        writes = typed_writes(function, classes[0] if classes else None)
        if writes is None:
            return kind(function, rule, thread=thread, name=name)
        writes.check(names, settings.get("operations", ()))
        return kind(function, Rule(names or [writes.resource], **settings), thread=thread, name=name, writes=writes)

    return make
