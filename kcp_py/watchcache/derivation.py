"""`Derivation`: events that watchers receive, and that do not follow from the stored objects of their resource alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kcp_py.watchcache.event import ObjectEvent


class Derivation(Protocol):
    """Events of one resource that do not follow from its stored objects alone, such as the virtual namespaces of a new cluster."""

    def concerns(self, event: ObjectEvent) -> bool:
        """Whether a stored event, of a source or of the resource itself, may change for watchers. Called for each event, so it is cheap."""
        ...

    def sources_of(self, cluster: str) -> Sequence[str] | None:
        """The prefixes of all further events that may change for the watchers of a cluster (empty: of all clusters).

        Each holds few events: they are read before those of the resource. None where they may be many, or anywhere in the store.
        """
        ...

    async def seen(self, events: Sequence[ObjectEvent], stored: Sequence[ObjectEvent]) -> Sequence[ObjectEvent]:
        """The events that watchers receive for the events of one revision, of which at least one concerns this derivation.

        Args:
            events: of the revision, as derivations before this one have left them.
            stored: of the revision, as the store has them.

        Raises:
            StorageError: other objects that decide it cannot be read at that revision.
        """
        ...


class Derivations:
    """The derivations of a fan-out."""

    def __init__(self) -> None:
        self._by_source: dict[str, list[Derivation]] = {}
        """By the prefix of the events that they depend on."""
        self._by_target: dict[str, list[Derivation]] = {}
        """By the prefix of the resource whose watchers receive the result."""
        self._on_demand: set[tuple[str, str]] = set()
        """Prefixes and names of which events are derived while they are watched."""

    def add(self, sources: Iterable[str], target: str, derivation: Derivation, *, on_demand: str = "") -> None:
        """`Fanout.derive`."""
        if on_demand:
            self._on_demand.add((target, on_demand))
        for prefix in dict.fromkeys((*sources, target)):
            self._by_source.setdefault(prefix, []).append(derivation)
        self._by_target.setdefault(target, []).append(derivation)

    def of(self, target: str) -> Sequence[Derivation]:
        """Those that make events of a resource, in the order in which they were added."""
        return self._by_target.get(target, ())

    def on_demand(self, target: str, name: str) -> bool:
        """Whether events of a name are derived only while it is watched."""
        return (target, name) in self._on_demand

    def concerned(self, stored: Sequence[ObjectEvent], asked: Mapping[Derivation, None]) -> dict[Derivation, None]:
        """Those that events of a revision concern, without those that were asked already."""
        found: dict[Derivation, None] = {}
        for event in stored:
            # Without a comprehension: each write of the server comes here, and hardly any resource is a source.
            ones = self._by_source.get(event.route.prefix)
            if ones is not None:
                found.update((one, None) for one in ones if one not in asked and one.concerns(event))
        return found
