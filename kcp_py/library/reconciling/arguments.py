"""`Arguments`: what a function gets for each of its parameters, decided by name and annotation when it is registered."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.client.blocking import BlockingClient
from kcp_py.client.clusterclient import ClusterClient
from kcp_py.client.keys import Key
from kcp_py.library.reconciling.events import Recorder

NAMES: Final = ("client", "cluster", "key", "namespace", "name", "recorder", "log")
_TYPES: Final[Mapping[type, str]] = {ClusterClient: "client", BlockingClient: "client", Key: "key", Recorder: "recorder"}


class Arguments:
    """The arguments of one function.

    A parameter with a name of `NAMES` gets that. Of the others, one with the type of a client, a key or a recorder gets it,
    and the one that remains gets the object.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Read the signature.

        Raises:
            TypeError: a parameter without a default cannot be filled, or none takes the object.
        """
        try:
            hints = typing.get_type_hints(function)
        except NameError:  # names that exist for type checkers only
            hints = {}
        self._given: dict[str, str] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                raise TypeError(f"{_title(function)}: the parameter {name} must be usable as a keyword")
            role = name if name in NAMES else _TYPES.get(hints.get(name, object), "")
            if not role and "object" not in self._given.values():
                role = "object"
            if role:
                self._given[name] = role
            elif parameter.default is parameter.empty:
                raise TypeError(f"{_title(function)}: nothing to give for the parameter {name}; there are the object, {', '.join(NAMES)}")
        if "object" not in self._given.values():
            raise TypeError(f"{_title(function)}: no parameter takes the object")

    def of(self, available: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments of a call, from `object` and the names of `NAMES`."""
        return {name: available[role] for name, role in self._given.items()}


def _title(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", repr(function))
