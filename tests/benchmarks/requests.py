"""Single requests: GET and create of a 1 KB object, without and with CEL rules."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import GROUP, creates, gadget, gadgets, install, repeated
from tests.benchmarks.processes import bare, kcp
from tests.benchmarks.row import Row, percentiles

_UPDATES = {"PUT": "<= 5x", "merge patch": "<= 5x", "apply of a field": "<= 6x", "apply without a change": "<= 5x"}
"""The updates that are measured, and how many bare durable writes one may cost."""


async def get_row(directory: Path) -> AsyncIterator[Row]:
    """GET of a 1 KB object, plain and on TLS."""
    for plain in (True, False):
        root = directory / f"get-{plain}"
        with kcp(root, plain=plain) as ours:
            await install(ours.target, "a")
            created = await ours.target.one("POST", gadgets("a"), gadget("one"))
            path = f"{gadgets('a')}/one"
            size = len(created.partition(b"\r\n\r\n")[2])
            await run(ours.target, repeated(ours.target.head("GET", path), 2_000), connections=32)
            mine = await run(ours.target, repeated(ours.target.head("GET", path), 20_000), connections=32)
        with bare(directory, None if plain else root / "pki") as other:
            await run(other.target, repeated(other.target.head("GET", f"/fixed/{size}"), 2_000), connections=32)
            theirs = await run(other.target, repeated(other.target.head("GET", f"/fixed/{size}"), 20_000), connections=32)
        name = f"GET of a 1 KB object, {'plain' if plain else 'TLS'}"
        ratio = f"{mine.rate / theirs.rate:.0%}"
        yield Row(name, f"{mine.rate:,.0f}/s", f"{theirs.rate:,.0f}/s", ratio, ">= 45 %", percentiles(mine))


async def create_row(directory: Path) -> AsyncIterator[Row]:
    """Durable creates of a validated 1 KB custom resource by 64 clients."""
    for plain in (True, False):
        root = directory / f"create-{plain}"
        with kcp(root, plain=plain) as ours:
            await install(ours.target, "a")
            names = (f"g{number}" for number in range(10**9))
            await run(ours.target, creates(ours.target, gadgets("a"), islice(names, 2_000)), connections=64, expect=b" 201 ")
            mine = await run(ours.target, creates(ours.target, gadgets("a"), islice(names, 20_000)), connections=64, expect=b" 201 ")
        with bare(directory, None if plain else root / "pki") as other:
            names = (f"g{number}" for number in range(10**9))
            await run(other.target, creates(other.target, "/commit", islice(names, 2_000)), connections=64)
            theirs = await run(other.target, creates(other.target, "/commit", islice(names, 20_000)), connections=64)
        name = f"create of a 1 KB CR, durable, 64 clients, {'plain' if plain else 'TLS'}"
        ratio = f"{mine.rate / theirs.rate:.0%}"
        yield Row(name, f"{mine.rate:,.0f}/s", f"{theirs.rate:,.0f}/s", ratio, ">= 40 %", percentiles(mine))


async def rules_row(directory: Path) -> AsyncIterator[Row]:
    """Creates of a custom resource whose schema has CEL rules, compared with one without rules."""
    with kcp(directory / "rules") as ours:
        plain = 0.0
        for rules in (0, 10, 100):
            cluster = f"rules-{rules}"
            await install(ours.target, cluster, rules=rules)
            names = (f"g{number}" for number in range(10**9))
            await run(ours.target, creates(ours.target, gadgets(cluster), islice(names, 1_000)), connections=64, expect=b" 201 ")
            mine = await run(ours.target, creates(ours.target, gadgets(cluster), islice(names, 10_000)), connections=64, expect=b" 201 ")
            plain = plain or mine.rate
            name = f"create of a 1 KB CR with {rules} CEL rules, durable, 64 clients"
            yield Row(name, f"{mine.rate:,.0f}/s", "", f"{mine.rate / plain:.0%}", "", percentiles(mine))


async def updates_row(directory: Path) -> AsyncIterator[Row]:
    """Durable updates of 1 KB custom resources by 16 clients: the processor's time of one, compared with that of a bare durable write.

    The last column has the multiple of a GET of the same objects from the same server.
    """
    number = 3_000

    async def updates(target: Target, kind: str, start: int) -> list[tuple[bytes, bytes]]:
        listed = json.loads((await target.one("GET", gadgets("a"))).partition(b"\r\n\r\n")[2])
        return list(requests(target, kind, start, listed["items"]))

    def requests(target: Target, kind: str, start: int, items: list[dict[str, Any]]) -> Iterator[tuple[bytes, bytes]]:
        for at, item in enumerate(items, start):
            name = item["metadata"]["name"]
            path = f"{gadgets('a')}/{name}"
            if kind == "PUT":
                item["spec"]["replicas"] = at
                body = json.dumps(item, separators=(",", ":")).encode()
                yield target.head("PUT", path, len(body)), body
                continue
            spec = b'"spec":{"replicas":%d}' % (at if kind != "apply without a change" else 7)
            if kind == "merge patch":
                body = b"{%s}" % spec
                yield target.head("PATCH", path, len(body), content_type="application/merge-patch+json"), body
                continue
            body = b'{"apiVersion":"%s/v1","kind":"Gadget","metadata":{"name":"%s"},%s}' % (GROUP.encode(), name.encode(), spec)
            path += "?fieldManager=bench&force=true"
            yield target.head("PATCH", path, len(body), content_type="application/apply-patch+yaml"), body

    with bare(directory) as other:
        names = (f"g{at}" for at in range(10**9))
        await run(other.target, creates(other.target, "/commit", islice(names, 1_000)), connections=16)
        before = other.cpu_seconds
        await run(other.target, creates(other.target, "/commit", islice(names, number)), connections=16)
        theirs = (other.cpu_seconds - before) / number
    with kcp(directory / "updates") as ours:
        await install(ours.target, "a")
        await run(ours.target, creates(ours.target, gadgets("a"), (f"g{at}" for at in range(number))), connections=16, expect=b" 201 ")
        reads = [(ours.target.head("GET", f"{gadgets('a')}/g{at}"), b"") for at in range(number)]
        await run(ours.target, iter(reads), connections=16)
        before = ours.cpu_seconds
        await run(ours.target, iter(reads), connections=16)
        read = (ours.cpu_seconds - before) / number
        for kind, wanted in _UPDATES.items():
            await run(ours.target, iter(await updates(ours.target, kind, 10)), connections=16)
            requested = await updates(ours.target, kind, 10_010)
            before = ours.cpu_seconds
            result = await run(ours.target, iter(requested), connections=16)
            mine = (ours.cpu_seconds - before) / number
            name = f"{kind}, 1 KB CR, durable, 16 clients, CPU"
            more = f"{mine / read:.1f}x a GET ({read * 1e6:.0f} us), {percentiles(result)}"
            yield Row(name, f"{mine * 1e6:,.0f} us", f"{theirs * 1e6:,.0f} us", f"{mine / theirs:.1f}x", wanted, more)


REQUEST_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "get": get_row,
    "create": create_row,
    "updates": updates_row,
    "cel-create": rules_row,
}
