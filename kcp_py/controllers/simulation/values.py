"""Parts of a status: conditions, addresses, and names of revisions."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

Object = Mapping[str, Any]

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Of Kubernetes' hashes in names: without vowels, which could spell words (apimachinery `util/rand`)."""


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> dict[str, str]:
    """A condition without times."""
    texts = {"reason": reason, "message": message}
    return {"type": kind, "status": status, **{name: text for name, text in texts.items() if text}}


def merged_conditions(status: Object, wanted: Iterable[Object], now: str, *times: str) -> list[dict[str, Any]]:
    """The conditions of a status with others in the place of those of their types.

    Args:
        status: that has conditions or none.
        wanted: without times.
        now: RFC 3339.
        times: further times of these conditions besides lastTransitionTime. They change whenever the condition changes.
    """
    found = {one["type"]: dict(one) for one in status.get("conditions") or ()}
    for one in wanted:
        before = found.get(one["type"])
        if before is not None and all(before.get(name, "") == one.get(name, "") for name in ("status", "reason", "message")):
            continue
        kept = before is not None and before.get("status") == one["status"]
        since = before.get("lastTransitionTime", now) if kept and before is not None else now
        found[one["type"]] = {**one, **dict.fromkeys(times, now), "lastTransitionTime": since}
    return list(found.values())


def without_zeros(status: Object) -> dict[str, Any]:
    """A status without fields that Go leaves out while they are empty."""
    return {name: value for name, value in status.items() if value not in (0, "", None, [], {})}


def address(uid: str, network: str) -> str:
    """An address of a network for an object; two objects rarely have the same one."""
    addresses = ipaddress.ip_network(network)
    number = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big")
    return str(addresses[1 + number % (addresses.num_addresses - 2)])


def revision_of(template: object) -> str:
    """Ten letters that differ between templates, as at the end of the names of replica sets."""
    digest = hashlib.sha256(orjson.dumps(template, option=orjson.OPT_SORT_KEYS)).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:10])


def replicas_of(obj: Object) -> int:
    """How many replicas an object asks for."""
    replicas = obj["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)
