"""Events to many watchers, and the cost of idle watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.benchmarks.load import Stream
from tests.benchmarks.objects import KILOBYTE, config_map, revision
from tests.benchmarks.processes import bare, kcp
from tests.benchmarks.row import Row


async def watch_row(directory: Path) -> AsyncIterator[Row]:
    """One event to 1,000 watchers, and what 5,000 idle ones cost."""
    count, idle = 1_000, 5_000
    figures: dict[str, tuple[float, float, float]] = {}
    for name in ("ours", "bare"):
        with kcp(directory / "watch") if name == "ours" else bare(directory) as server:
            target = server.target
            if name == "ours":
                await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("first"))
            path = "/clusters/a/api/v1/configmaps?watch=true&resourceVersion=" + await revision(target) if name == "ours" else "/stream"
            before = server.resident
            streams = [await target.stream(path) for _ in range(count)]
            walls = []
            for number in range(20):
                start = time.perf_counter()
                if name == "ours":
                    await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map(f"e{number}", KILOBYTE))
                else:
                    await target.one("POST", "/emit", b'{"x":"' + KILOBYTE.encode() + b'"}\n')
                await _all_have(streams, number + 1)
                walls.append(time.perf_counter() - start)
            started = time.perf_counter()
            streams += [await target.stream(path) for _ in range(idle - count)]
            connecting = (time.perf_counter() - started) / (idle - count)
            figures[name] = (sorted(walls)[len(walls) // 2], (server.resident - before) / idle, connecting)
            for stream in streams:
                assert stream.transport is not None
                stream.transport.abort()
    (wall, memory, connecting), (bare_wall, bare_memory, bare_connecting) = figures["ours"], figures["bare"]
    yield Row("one event to 1,000 watchers", f"{wall * 1e3:.0f} ms", f"{bare_wall * 1e3:.0f} ms", f"{wall / bare_wall:.2f}x", "<= 1.5x")
    memory_ratio = f"{memory / bare_memory:.2f}x"
    yield Row("5,000 idle watches, memory each", f"{memory / 1e3:.1f} KB", f"{bare_memory / 1e3:.1f} KB", memory_ratio, "<= 1.5x")
    time_ratio = f"{connecting / bare_connecting:.2f}x"
    yield Row("opening a watch", f"{connecting * 1e6:.0f} us", f"{bare_connecting * 1e6:.0f} us", time_ratio, "<= 1.5x")
    yield await _idle_on_tls(directory / "watch-tls")
    for plain in (True, False):
        yield await _delivery(directory / f"watch-delivery-{'plain' if plain else 'tls'}", plain=plain)


async def _idle_on_tls(root: Path) -> Row:
    """What 2,000 idle watches cost on TLS.

    Both servers have closed a connection before: from then on the C library keeps buffers of that size on the heap.
    """
    count = 2_000
    figures = []
    for name in ("ours", "bare"):
        with kcp(root, plain=False) if name == "ours" else bare(root.parent, root / "pki") as server:
            target = server.target
            path = "/stream"
            if name == "ours":
                await target.one("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("first"))
                path = f"/clusters/a/api/v1/configmaps?watch=true&resourceVersion={await revision(target)}"
            else:
                await target.one("GET", "/fixed/1000")
            before = server.resident
            streams = [await target.stream(path) for _ in range(count)]
            figures.append((server.resident - before) / count)
            for stream in streams:
                assert stream.transport is not None
                stream.transport.abort()
    memory, bare_memory = figures
    ratio = f"{memory / bare_memory:.2f}x"
    return Row("2,000 idle watches on TLS, memory each", f"{memory / 1e3:.1f} KB", f"{bare_memory / 1e3:.1f} KB", ratio, "<= 1.5x")


async def _delivery(root: Path, *, plain: bool) -> Row:
    """The CPU of one event at one of 500 watchers: that of an event to all of them, without that of the write itself."""
    count, events = 500, 60
    path = "/clusters/a/api/v1/namespaces/default/configmaps"
    figures = []
    for name in ("ours", "bare"):
        with kcp(root, plain=plain) if name == "ours" else bare(root.parent, None if plain else root / "pki") as server:
            target = server.target
            if name == "ours":
                await target.one("POST", path, config_map("first"))
            connection = await target.connect()
            costs = []
            streams: list[Stream] = []
            for watchers in (0, count):
                watch = (
                    f"/clusters/a/api/v1/configmaps?watch=true&resourceVersion={await revision(target)}" if name == "ours" else "/stream"
                )
                streams = [await target.stream(watch) for _ in range(watchers)]
                before = server.cpu_seconds
                for number in range(events):
                    if name == "ours":
                        body = config_map(f"e{watchers}-{number}", KILOBYTE)
                        await connection.request(target.head("POST", path, len(body)), body)
                    else:
                        body = b'{"x":"' + KILOBYTE.encode() + b'"}\n'
                        await connection.request(target.head("POST", "/emit", len(body)), body)
                    await _all_have(streams, number + 1)
                costs.append((server.cpu_seconds - before) / events)
            figures.append((costs[1] - costs[0]) / count)
            for stream in streams:
                assert stream.transport is not None
                stream.transport.abort()
            connection.close()
    ours, theirs = figures
    over = "plain" if plain else "TLS"
    return Row(
        f"an event at one of 500 watchers, CPU, {over}",
        f"{ours * 1e6:.1f} us",
        f"{theirs * 1e6:.1f} us",
        f"{ours / theirs:.2f}x",
        "<= 1.0x",
    )


async def _all_have(streams: list[Stream], events: int) -> None:
    while any(stream.received < events for stream in streams):
        await asyncio.sleep(0)


WATCH_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "watch": watch_row,
}
