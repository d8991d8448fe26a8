"""`Sight`: which logical clusters a request over all of them may read.

Authorization decides it and `RequestContext` carries it to the reads. Without a decision it is `NO_CLUSTER`: a request that nothing has
given a sight reads nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, NamedTuple, final


class SightChange(NamedTuple):
    """Clusters that come into sight or go out of it, although they existed before and go on existing."""

    revision: int
    """Of the write that changed the sight."""
    added: Collection[str]
    removed: Collection[str]


class Sight(ABC):
    """The clusters that a caller may read, at each revision.

    It follows the store: revisions up to that of the feed can be asked for. A cluster that is created in sight, or deleted, does not
    make a `SightChange`: all of its objects come and go by events of their own.
    """

    __slots__ = ()

    @property
    def unrestricted(self) -> bool:
        """Whether all clusters are in sight, for as long as the request lasts."""
        return False

    @property
    def outdated(self) -> bool:
        """Whether it does not follow the store any more, because changes may have been missed."""
        return False

    @property
    @abstractmethod
    def scope(self) -> str:
        """Identifies the caller: continue tokens of one caller do not serve another."""

    @property
    @abstractmethod
    def known_since(self) -> int:
        """The revision before which the sight is not known."""

    @property
    @abstractmethod
    def changed_at(self) -> int:
        """The revision of the latest `SightChange`, or `known_since`."""

    @abstractmethod
    def sees(self, cluster: str, revision: int = 0) -> bool:
        """Whether a cluster is in sight at a revision; 0 for the present."""

    def at(self, revision: int) -> Callable[[str], bool]:
        """`sees` at one revision, for many clusters."""
        return partial(self.sees, revision=revision)

    @abstractmethod
    def shows(self, cluster: str, revision: int) -> bool:
        """Whether an event of a cluster is visible. Events of the write that brought an existing cluster into sight are not."""

    @abstractmethod
    def few(self, revision: int = 0) -> Collection[str] | None:
        """The clusters that are in sight at a revision (0 for the present), if they are so few that each is read by itself.

        Some of them may not exist. None where it is better to read all clusters and to leave out those that are not in sight.
        """

    @abstractmethod
    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        """Call a function at each change, before watchers receive events of its revision. It must not block and must not raise.

        Returns:
            Ends the calls.
        """


@final
class _Constant(Sight):
    """All clusters, or none."""

    __slots__ = ("_all",)

    scope = "*"
    known_since = 0
    changed_at = 0

    def __init__(self, *, everything: bool) -> None:
        self._all = everything

    @property
    def unrestricted(self) -> bool:
        return self._all

    def sees(self, cluster: str, revision: int = 0) -> bool:
        del cluster, revision
        return self._all

    def shows(self, cluster: str, revision: int) -> bool:
        del cluster, revision
        return self._all

    def few(self, revision: int = 0) -> Collection[str] | None:
        del revision
        return None if self._all else ()

    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        del listener
        return lambda: None

    def __repr__(self) -> str:
        return "EVERY_CLUSTER" if self._all else "NO_CLUSTER"


def is_current(sight: Sight, decided: Sight) -> bool:
    """Whether a request that runs with `sight` reads what it would read with the sight that is decided now."""
    return sight is decided or (not sight.outdated and sight.unrestricted is decided.unrestricted and sight.scope == decided.scope)


EVERY_CLUSTER: Final[Sight] = _Constant(everything=True)
"""Of `system:masters` and of the server itself."""
NO_CLUSTER: Final[Sight] = _Constant(everything=False)
