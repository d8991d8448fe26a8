"""What functions are given."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.client.clusterclient import ClusterClient
from kcp_py.library.reconciling.arguments import NAMES, Arguments
from tests.client.ships import Ship

AVAILABLE = {"object": "OBJECT", **{name: name.upper() for name in NAMES}}


def test_parameters_are_filled_by_name_and_by_type() -> None:
    """The one that remains gets the object; those with a default and no meaning keep it."""

    def function(api: ClusterClient, ship: Ship, cluster: Any, *, log: Any, retries: int = 3, **_: Any) -> None:
        """Takes much."""

    assert Arguments(function).of(AVAILABLE) == {"api": "CLIENT", "ship": "OBJECT", "cluster": "CLUSTER", "log": "LOG"}


def test_types_that_cannot_be_read_leave_the_names() -> None:
    """As those that are imported for type checkers only."""

    def function(ship: Missing, client: Missing) -> None:  # type: ignore[name-defined] # noqa: F821
        """Takes what does not exist."""

    assert Arguments(function).of(AVAILABLE) == {"ship": "OBJECT", "client": "CLIENT"}


def test_parameters_that_cannot_be_filled_are_mistakes() -> None:
    """Found where the function is registered."""

    def two(ship: Ship, boat: Ship) -> None: ...

    def none(client: ClusterClient) -> None: ...

    def positional(ship: Ship, /) -> None: ...

    with pytest.raises(TypeError, match="two: nothing to give for the parameter boat"):
        Arguments(two)
    with pytest.raises(TypeError, match="none: no parameter takes the object"):
        Arguments(none)
    with pytest.raises(TypeError, match="positional: the parameter ship must be usable as a keyword"):
        Arguments(positional)
