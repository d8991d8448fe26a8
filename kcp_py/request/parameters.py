"""`Parameters`: the decoded query of a request, with what its readers make of it.

Clients send few different queries, such as that of their field manager, with every write. The queries that came last are kept by their
text, on which alone the parameters depend, and so do the options that are decoded from them. No part of a kept query can be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

from kcp_py.request.requestinfo import Query, parse_query

KEPT: Final = 512
"""The number of queries that are kept."""
LONGEST: Final = 256
"""Bytes of a query that is kept. Longer ones, such as those with tokens of lists, seldom come again."""

T = TypeVar("T")


class Parameters:
    """The parameters of a query.

    Attributes:
        values: by name, in the order of the query. Requests share it.
    """

    __slots__ = ("_decoded", "values")

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        """Take decoded parameters, which must not change any more."""
        self.values = values
        self._decoded: dict[Callable[[Mapping[str, Sequence[str]]], Any], Any] = {}

    def decode(self, decoder: Callable[[Mapping[str, Sequence[str]]], T]) -> T:
        """What a decoder makes of the parameters. It is asked once.

        Args:
            decoder: a function of a module, whose result depends on its argument alone and cannot be changed.

        Raises:
            StatusError: as the decoder does, each time.
        """
        result: T | None = self._decoded.get(decoder)
        if result is None:
            result = self._decoded[decoder] = decoder(self.values)
        return result

    def copy(self) -> Query:
        """The parameters, for the caller to change."""
        return {name: list(values) for name, values in self.values.items()}


NO_PARAMETERS: Final = Parameters({})
"""Those of a request without a query."""


def parameters_of(query_string: bytes) -> Parameters:
    """The parameters of a query string.

    Raises:
        StatusError: 400, for a malformed or oversized query.
    """
    return _kept(query_string) if len(query_string) <= LONGEST else _parsed(query_string)


def _parsed(query_string: bytes) -> Parameters:
    return Parameters({name: tuple(values) for name, values in parse_query(query_string).items()})


_kept = lru_cache(maxsize=KEPT)(_parsed)
