"""`KindRules`: what a built-in kind has beyond its schema. Each group gives those of its kinds by `install`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.table import AGE, NAME, Column
from kcp_py.registry.resource import Converter, DefaultObjects, NamespaceObject
from kcp_py.registry.strategy import Strategy


class KindRules(NamedTuple):
    """The rules of one kind in all its versions."""

    strategy: Callable[[], Strategy]
    columns: Sequence[Column]
    """Of the Table form."""
    field_labels: Mapping[str, str] = {}
    """See `ServedResource.field_labels`."""
    default_objects: DefaultObjects | None = None
    """Objects that every cluster has without storing them."""
    namespace_object: NamespaceObject | None = None
    """The object that every namespace has without storing it."""
    inherited: bool = False
    """See `ServedResource.inherited`."""
    typed: bool = True
    """See `ServedResource.typed`."""
    storage_group: str | None = None
    """The group in which objects are stored, where it is another one."""
    converter: Converter | None = None
    """Between the forms of groups and versions; None: they differ in `apiVersion` alone."""
    normalize: Callable[[dict[str, Any]], None] | None = None
    """Called with each decoded object: brings it, in place, to the form in which Go would encode it again."""


class _ReviewStrategy(Strategy):
    has_generation = False


REVIEW: Final = KindRules(_ReviewStrategy, (NAME, AGE))
"""Of kinds that are questions: a POST is answered, and nothing is stored."""

Installed = Mapping[GroupResource, KindRules]
"""The kinds of a group."""
