"""From stored bytes to answered bytes without parsing: the splice.

An object is stored as compact JSON whose members begin in a fixed order, without what the storage key and revision already say::

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"a":"b"},"name":"game",...},"data":{...}}

so everything up to the first brace of `metadata` is known beforehand (the *head*), and `annotations`, where there are any, come
right behind it. `labels` follow, where selectors find them without decoding the object (see `kcp_py.registry.store.labels`).
A read puts resourceVersion and the cluster's annotation between head and rest::

    {"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"7","annotations":{"kcp.io/cluster":"team-a","a":"b"},"name":...

which costs about a microsecond where parsing and printing the object costs ten and more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from kcp_py.storage.contract import KeyValue

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
"""The logical cluster that a returned object lives in: on every object, or on those of wildcard requests only. Never stored, never taken
from clients."""

_ANNOTATIONS: Final = b'"annotations":{'


def encode_stored(obj: dict[str, Any]) -> bytes:
    """The stored form of an object in its storage version. `metadata` must hold neither resourceVersion nor the cluster's annotation."""
    # A result of orjson keeps its whole buffer of at least 4 KiB. Watches and caches keep this one, so it is copied by the slice.
    return orjson.dumps(stored_form(obj), option=orjson.OPT_APPEND_NEWLINE)[:-1]


def stored_form(obj: dict[str, Any]) -> dict[str, Any]:
    """An object with its members in the order in which they are stored. It shares the parts of the argument."""
    metadata = obj["metadata"]
    labels, annotations, names = metadata.get("labels"), metadata.get("annotations"), iter(metadata)
    # Objects that clients have read before are in this order already.
    if (annotations and next(names) != "annotations") or (labels and next(names) != "labels"):
        if labels:
            metadata = {"labels": labels, **metadata}
        if annotations:
            metadata = {"annotations": annotations, **metadata}
    stored = {"apiVersion": "", "kind": "", "metadata": metadata, **obj}
    stored["metadata"] = metadata
    return stored


class Renderer:
    """The splice for one resource in one version."""

    __slots__ = ("_annotated", "_head", "_item_head", "_same_form", "_stored_head")

    def __init__(
        self, *, api_version: str, stored_api_version: str, kind: str, untyped_items: bool, same_form: bool, annotated: bool = True
    ) -> None:
        """Prepare the heads.

        Args:
            api_version: of answers.
            stored_api_version: of stored objects.
            kind: of both.
            untyped_items: items of lists carry neither apiVersion nor kind, as those of typed kinds.
            same_form: stored and answered objects differ in apiVersion alone.
            annotated: answers of one cluster carry `CLUSTER_ANNOTATION`, too.
        """
        self._annotated = annotated
        self._stored_head = _head(stored_api_version, kind)
        self._head = _head(api_version, kind)
        self._item_head = b'{"metadata":{' if untyped_items else self._head
        self._same_form = same_form

    def splice(self, item: KeyValue, cluster: str, *, wildcard: bool = False, in_list: bool = False) -> bytes | None:
        """The answered form of a stored object, or None where the object has to be decoded and converted first."""
        return self.splice_value(item.value, item.mod_revision, cluster, wildcard=wildcard, in_list=in_list)

    def splice_value(self, value: bytes, revision: int, cluster: str, *, wildcard: bool = False, in_list: bool = False) -> bytes | None:
        """`splice` for the stored form of an object and the revision of its last write."""
        stored_head = self._stored_head
        if not self._same_form or not value.startswith(stored_head):
            return None
        head = self._item_head if in_list else self._head
        at = len(stored_head)
        name = f',"clusterName":"{cluster}"' if wildcard else ""
        if not (wildcard or self._annotated):
            added = f'"resourceVersion":"{revision}",'
        elif value.startswith(_ANNOTATIONS, at):
            at += len(_ANNOTATIONS)
            added = f'"resourceVersion":"{revision}"{name},"annotations":{{"{CLUSTER_ANNOTATION}":"{cluster}",'
        else:
            added = f'"resourceVersion":"{revision}"{name},"annotations":{{"{CLUSTER_ANNOTATION}":"{cluster}"}},'
        return b"".join((head, added.encode(), value[at:]))

    def splicer(self, cluster: str, *, wildcard: bool = False, in_list: bool = False) -> Callable[[KeyValue], bytes | None]:
        """`splice` for many objects of one cluster: what they share is put together once."""
        if not self._same_form:
            return _cannot_splice
        stored_head = self._stored_head
        at = len(stored_head)
        behind = at + len(_ANNOTATIONS)
        name = f'","clusterName":"{cluster}' if wildcard else ""
        before = (self._item_head if in_list else self._head) + b'"resourceVersion":"'
        alone = f'{name}","annotations":{{"{CLUSTER_ANNOTATION}":"{cluster}"}},'.encode()
        among = f'{name}","annotations":{{"{CLUSTER_ANNOTATION}":"{cluster}",'.encode()
        if not (wildcard or self._annotated):
            alone = b'",'
            among = alone + _ANNOTATIONS

        def splice(item: KeyValue) -> bytes | None:
            value = item.value
            if not value.startswith(stored_head):
                return None
            if value.startswith(_ANNOTATIONS, at):
                return b"%b%d%b%b" % (before, item.mod_revision, among, value[behind:])
            return b"%b%d%b%b" % (before, item.mod_revision, alone, value[at:])

        return splice

    def add_server_fields(self, obj: dict[str, Any], mod_revision: int, cluster: str, *, wildcard: bool = False) -> dict[str, Any]:
        """Add the fields that storage leaves out to the metadata of a decoded object, in place."""
        metadata = obj["metadata"]
        if mod_revision:
            metadata["resourceVersion"] = str(mod_revision)
        if wildcard:
            metadata["clusterName"] = cluster
        if wildcard or self._annotated:
            metadata["annotations"] = {CLUSTER_ANNOTATION: cluster, **metadata.get("annotations", {})}
        return obj

    def encode(self, obj: dict[str, Any], *, in_list: bool = False) -> bytes:
        """The answered bytes of an object that has the fields of answers."""
        return orjson.dumps(self.list_item(obj) if in_list else obj)

    def list_item(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A decoded object in the form of an item of a list. The argument is not changed."""
        if self._item_head is self._head:
            return obj
        return {key: value for key, value in obj.items() if key not in {"apiVersion", "kind"}}


def _cannot_splice(item: KeyValue) -> None:
    del item


def strip_server_fields(obj: dict[str, Any]) -> None:
    """Take from a client's object, in place, what storage leaves out and only the server says."""
    metadata = obj["metadata"]
    metadata.pop("resourceVersion", None)
    metadata.pop("clusterName", None)
    metadata.pop("selfLink", None)
    annotations = metadata.get("annotations")
    if annotations is not None:
        annotations.pop(CLUSTER_ANNOTATION, None)
        if not annotations:
            del metadata["annotations"]


def _head(api_version: str, kind: str) -> bytes:
    return orjson.dumps({"apiVersion": api_version, "kind": kind, "metadata": {}})[:-2]
