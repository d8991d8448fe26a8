"""`namespace_annotations`: what the namespace of a pod says to a plugin."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import NAMESPACES
from kcp_py.registry.admission import Attributes
from kcp_py.registry.namespaces import DEFAULT_NAMESPACES, namespace_keys
from kcp_py.storage.contract import Compare, Storage


async def namespace_annotations(storage: Storage, attributes: Attributes) -> Mapping[str, str]:
    """The annotations of the namespace of a write. They hold in its transaction, so that new ones count from the answer to their write on.

    Raises:
        StatusError: 404, the namespace does not exist.
        StorageError: the store cannot be read.
    """
    name = attributes.namespace
    key = namespace_keys(attributes.resource.keys.root).object_key(attributes.cluster, "", name)
    item = await storage.get(key)
    condition = Compare(key, mod_revision=0 if item is None else item.mod_revision)
    if condition not in attributes.compares:
        attributes.compares.append(condition)
    if item is None:
        # Namespaces that every cluster has are not stored before they are changed.
        if name in DEFAULT_NAMESPACES:
            return {}
        raise errors.not_found(NAMESPACES.group_resource, name)
    return orjson.loads(item.value)["metadata"].get("annotations") or {}
