"""`definitions_in`: the CRDs of the resources that a module, or an object of a program, has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from kcp_py.cli.exits import CommandError
from kcp_py.controlplane.extensions import Extensions
from kcp_py.library.types.described import ATTRIBUTE, TypedResource
from kcp_py.library.types.resource import stored_resource
from kcp_py.registry.stored import StoredResource
from kcp_py.schema.crd.validation import initial_status, validate_crd


def definitions_in(found: object) -> list[dict[str, Any]]:
    """The CRDs in the order in which a program defines them, each once.

    Args:
        found: a module, a resource, a control plane, a sequence of them, or a function without parameters that returns one.

    Raises:
        CommandError: a CRD would be refused by a server, two have one name, or a function fails.
    """
    if callable(found) and not isinstance(found, type) and not isinstance(found, Extensions):
        try:
            found = found()
        except Exception as error:
            raise CommandError(f"the function fails: {type(error).__name__}: {error}") from error
    resources: list[StoredResource] = []
    for one in _resources(found):
        if not any(one is other for other in resources):
            resources.append(one)
    definitions: dict[str, dict[str, Any]] = {}
    for one in resources:
        crd = one.definition()
        name = crd["metadata"]["name"]
        if problems := validate_crd({**crd, "status": initial_status(crd)}):
            raise CommandError(f"{name}: {'; '.join(map(str, problems))}")
        # Each version of a type stands for the whole.
        if definitions.setdefault(name, crd) != crd:
            raise CommandError(f"{name} is defined twice")
    return list(definitions.values())


def _resources(found: Any) -> Iterator[StoredResource]:
    match found:
        case StoredResource():
            yield found
        case type() if isinstance(vars(found).get(ATTRIBUTE), TypedResource):
            yield stored_resource(found)
        case Extensions():
            yield from _each(found.apis)
        case list() | tuple() | set() | frozenset():
            yield from _each(found)
        case ModuleType():
            yield from _each(value for name, value in vars(found).items() if not name.startswith("__"))


def _each(values: Iterable[Any]) -> Iterator[StoredResource]:
    for value in values:
        if not isinstance(value, ModuleType):
            yield from _resources(value)
