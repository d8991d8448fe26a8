"""Putting a cluster, a user and a context into a kubeconfig that exists, as `kubectl config set-…` does: unknown fields stay."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

_KINDS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


class KubeconfigFormError(ValueError):
    """A document does not have the form of a kubeconfig."""


class Merged(NamedTuple):
    """A kubeconfig with the entries of another."""

    document: dict[str, Any]
    context: str
    """The name of the context that was added or replaced."""


def merge(existing: Mapping[str, Any], added: Mapping[str, Any]) -> Merged:
    """Add the only context of a kubeconfig, with its cluster and user, to another kubeconfig.

    Entries of an earlier merge are replaced: the cluster of this name with this server, and a user and a context that nothing else uses.
    If other entries have the names, all three get one more ending: `-2`, `-3`, ….

    Args:
        existing: is not changed.
        added: has one cluster, one user and one context.

    Raises:
        KubeconfigFormError: the existing one does not have the form of a kubeconfig.
    """
    entries = {plural: _entries(existing, plural, singular) for plural, singular in _KINDS.items()}
    new = {plural: added[plural][0] for plural in _KINDS}
    for number in itertools.count(1):
        ending = "" if number == 1 else f"-{number}"
        names = {plural: f"{new[plural]['name']}{ending}" for plural in _KINDS}
        if _is_free(entries, new, names):
            break
    context = {**new["contexts"]["context"], "cluster": names["clusters"], "user": names["users"]}
    bodies = {"clusters": new["clusters"]["cluster"], "users": new["users"]["user"], "contexts": context}
    document: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", **existing}
    for plural, singular in _KINDS.items():
        document[plural] = _with(existing.get(plural) or (), names[plural], singular, bodies[plural])
    if document.get("current-context") not in {entry["name"] for entry in document["contexts"]}:
        document["current-context"] = names["contexts"]
    return Merged(document, names["contexts"])


def _entries(document: Mapping[str, Any], plural: str, singular: str) -> dict[str, Mapping[str, Any]]:
    listed = document.get(plural) or ()
    if not isinstance(listed, list | tuple):
        raise KubeconfigFormError(f"{plural} is not a list")
    found = {}
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or not isinstance(entry.get(singular) or {}, dict):
            raise KubeconfigFormError(f"an entry of {plural} has no name, or no {singular}")
        found[entry["name"]] = entry.get(singular) or {}
    return found


def _is_free(entries: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]], names: Mapping[str, str]) -> bool:
    """Whether names are unused, or are those of an earlier merge."""
    cluster = entries["clusters"].get(names["clusters"])
    if cluster is not None and cluster.get("server") != new["clusters"]["cluster"]["server"]:
        return False
    context = entries["contexts"].get(names["contexts"])
    if context is not None and (context.get("cluster"), context.get("user")) != (names["clusters"], names["users"]):
        return False
    user = entries["users"].get(names["users"])
    others = any(one.get("user") == names["users"] for name, one in entries["contexts"].items() if name != names["contexts"])
    return user is None or user == new["users"]["user"] or not others


def _with(listed: Any, name: str, singular: str, body: Mapping[str, Any]) -> list[Any]:
    """The entries with one of a name, whose `extensions` stay."""
    result, found = [], False
    for entry in listed:
        if entry["name"] == name:
            found = True
            kept = {key: value for key, value in (entry.get(singular) or {}).items() if key == "extensions"}
            result.append({**entry, singular: {**kept, **body}})
        else:
            result.append(entry)
    return result if found else [*result, {"name": name, singular: dict(body)}]
