"""`CompiledPolicies`: compiled policies, made when they are first needed, shared by clusters, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, TypeVar

import orjson

from kcp_py.admission.policy.definitions import Definition
from kcp_py.aio.lru import LRU
from kcp_py.aio.offload import offload

_CAPACITY: Final = 2 * 1024 * 1024
"""Bytes of JSON of all policies whose compiled forms are kept. A compiled form takes about 20 times as much memory."""

T = TypeVar("T")


class CompiledPolicies(Generic[T]):
    """The compiled forms of policies by content."""

    def __init__(self, compile_spec: Callable[[Mapping[str, Any]], T]) -> None:
        """`compile_spec` makes the compiled form of a `spec`. It runs in a thread."""
        self._compile = compile_spec
        self._compiled: LRU[bytes, tuple[int, T]] = LRU(_CAPACITY, weigh=lambda entry: entry[0])
        self._compiling: dict[bytes, asyncio.Future[T]] = {}

    def __len__(self) -> int:
        """How many compiled forms are kept."""
        return len(self._compiled)

    @property
    def waiting(self) -> int:
        """How many policies are being compiled."""
        return len(self._compiling)

    def known(self, definition: Definition) -> T | None:
        """The compiled form of a policy, if it was compiled before."""
        found = self._compiled.get(definition.digest)
        return None if found is None else found[1]

    async def get(self, definition: Definition) -> T:
        """The compiled form of a policy."""
        found = self.known(definition)
        if found is not None:
            return found
        pending = self._compiling.get(definition.digest)
        if pending is None:
            pending = self._compiling[definition.digest] = asyncio.ensure_future(self._made(definition))
        # A request that ends early does not end the work for others.
        return await asyncio.shield(pending)

    async def _made(self, definition: Definition) -> T:
        try:
            compiled = await offload(lambda: self._compile(orjson.loads(definition.spec)))
        finally:
            del self._compiling[definition.digest]
        self._compiled.set(definition.digest, (len(definition.spec), compiled))
        return compiled
