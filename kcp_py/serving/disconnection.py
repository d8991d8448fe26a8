"""`DisconnectCallbacks`: what the application wants to be called when the client of a connection leaves."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable
from functools import partial

Callback = Callable[[], None]


class DisconnectCallbacks:
    """The callbacks of one connection. Each is called once."""

    __slots__ = ("_callbacks", "_loop")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        # None once the client has left.
        self._callbacks: dict[object, Callback] | None = {}

    @property
    def called(self) -> bool:
        """Whether the client has left."""
        return self._callbacks is None

    def register(self, callback: Callback) -> Callback:
        """Call `callback` when the client leaves; in the next turn of the loop where it already has.

        Returns:
            A function that takes the registration back.
        """
        if self._callbacks is None:
            self._loop.call_soon(callback)
            return _nothing
        registration = object()
        self._callbacks[registration] = callback
        return partial(self._unregister, registration)

    def call(self) -> None:
        """The client has left. Harmless when repeated."""
        callbacks, self._callbacks = self._callbacks, None
        for callback in (callbacks or {}).values():
            callback()

    def _unregister(self, registration: object) -> None:
        if self._callbacks is not None:
            self._callbacks.pop(registration, None)


def _nothing() -> None:
    """Takes back a registration of a connection that is gone."""
