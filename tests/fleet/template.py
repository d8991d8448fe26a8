"""`Template`: the keys of one logical cluster, from which those of any number of copies are made."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Iterator
from typing import Final, NamedTuple

from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.registry.uid import new_uid
from kcp_py.storage.contract import KeyValue, Put, Storage, prefix_end
from kcp_py.storage.keys import resource_prefix

ROOT: Final = "/registry"
_OWN: Final = re.compile(
    rb"(?P<uid>[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})|(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)"
)
"""Texts that differ between clusters, besides their names."""


class _Part(NamedTuple):
    """One key of the template."""

    before: str
    after: str
    """The key without the name of the cluster between them."""
    pattern: bytes
    """The value as a pattern for `%`: a uid, a time or the name of the cluster is to be put in."""
    fills: tuple[int, ...]
    """What comes into the pattern: the number of a uid of the cluster, or `_TIME` or `_NAME`."""


_TIME: Final = -1
_NAME: Final = -2


class Template:
    """A cluster that requests have created, and the operations that make copies of it.

    A copy has new uids, and each place that names an object by its uid names its copy. All its times are that of the copy.
    """

    def __init__(self, cluster: str, items: list[KeyValue]) -> None:
        """Take the keys of a cluster, in the order in which they were written.

        Args:
            cluster: its name, which occurs in its values as its name alone.
            items: its keys.
        """
        self._uids: dict[bytes, int] = {}
        self._parts: list[_Part] = []
        name = re.compile(_OWN.pattern + b"|(?P<name>" + re.escape(cluster.encode()) + b")")
        for item in sorted(items, key=lambda item: item.mod_revision):
            before, _, after = item.key.partition(f"/{cluster}/")
            fills: list[int] = []

            def take(found: re.Match[bytes], fills: list[int] = fills) -> bytes:
                if uid := found["uid"]:
                    fills.append(self._uids.setdefault(uid, len(self._uids)))
                else:
                    fills.append(_TIME if found["time"] else _NAME)
                return b"%b"

            self._parts.append(_Part(f"{before}/", f"/{after}", name.sub(take, item.value.replace(b"%", b"%%")), tuple(fills)))

    @property
    def keys(self) -> int:
        """How many keys a cluster has."""
        return len(self._parts)

    @property
    def size(self) -> int:
        """How many bytes of keys and values a cluster has, with a name of eight characters."""
        return sum(len(put.key) + len(put.value) for put in self.copy("c" * 8))

    def copy(self, cluster: str) -> Iterator[Put]:
        """The operations that make one copy."""
        uids = [new_uid().encode() for _ in self._uids]
        fills = [*uids, cluster.encode(), format_time(time.time()).encode()]  # by index: `_NAME`, `_TIME`
        for before, after, pattern, places in self._parts:
            yield Put(f"{before}{cluster}{after}", pattern % tuple([fills[place] for place in places]))


async def read_template(storage: Storage, cluster: str) -> Template:
    """The template of a stored cluster."""
    items: list[KeyValue] = []
    async for prefix in _prefixes(storage):
        for place in (prefix, f"{prefix}customresources/"):
            items += (await storage.range(f"{place}{cluster}/")).items
    return Template(cluster, items)


async def _prefixes(storage: Storage) -> AsyncIterator[str]:
    """The prefixes of all resources with stored objects, each found with one read."""
    start = f"{ROOT}/"
    while True:
        found = await storage.range(f"{ROOT}/", start=start, limit=1, keys_only=True)
        if not found.items:
            return
        key = found.items[0].key
        prefix = resource_prefix(key, ROOT)
        if prefix:
            yield prefix
        start = prefix_end(prefix) if prefix else key + "\x00"
