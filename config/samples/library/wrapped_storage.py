"""A store with measurements, latency and failures around it, whatever store it is.

Start it with `python config/samples/library/wrapped_storage.py 6443`, and compare:

    alias k='kubectl --server http://127.0.0.1:6443/clusters/team-a'
    k create configmap prices --from-literal currency=silver
    k create secret generic key           # the store fails: 507
    curl http://127.0.0.1:6443/storage    # calls and seconds of each method
"""

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kcp_py import ControlPlane, Credentials, Options, Storage, StorageCall, UserInfo, WrappedStorage, serve
from kcp_py.storage.contract import NoSpaceError

T = TypeVar("T")
CALLS: defaultdict[str, int] = defaultdict(int)
SECONDS: defaultdict[str, float] = defaultdict(float)


class Measured(WrappedStorage):
    """Counts the calls of each method, and adds up their time."""

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
        began = time.perf_counter()
        try:
            return await proceed()
        finally:
            CALLS[call.method] += 1
            if call.method != "watch":  # waits until something changes
                SECONDS[call.method] += time.perf_counter() - began


class Slow(WrappedStorage):
    """Each read and each write takes 5 ms longer, as if the store were in another zone."""

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
        if call.method in {"get", "range", "transact"}:
            await asyncio.sleep(0.005)
        return await proceed()


class Failing(WrappedStorage):
    """Refuses to write Secrets. No other object is affected."""

    async def around(self, call: StorageCall, proceed: Callable[[], Awaitable[T]]) -> T:
        if call.method == "transact" and any(key.startswith("/registry/core/secrets/") for key in call.keys):
            raise NoSpaceError("there is no space for Secrets")
        return await proceed()


def wrapped(storage: Storage) -> Storage:
    """The store of the options, with all of it. A single class can be given as it is: `storage=Measured`."""
    return Measured(Slow(Failing(storage)))


plane = ControlPlane(Options(storage="memory", secure_port=int(sys.argv[1]), plain_http=True), storage=wrapped)


@plane.authenticator
def everyone(_: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


@plane.get("/storage")
def measurements() -> dict[str, dict[str, float]]:
    """What the methods were called for so far."""
    return {method: {"calls": calls, "seconds": round(SECONDS[method], 6)} for method, calls in sorted(CALLS.items())}


async def main() -> None:
    """Serve until interrupted."""
    async with plane:
        await serve(plane)


if __name__ == "__main__":
    asyncio.run(main())
