"""The Table columns of CustomResourceDefinitions (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.meta.table import CREATED_AT, NAME, Column
from kcp_py.apis.typed.cells import NONE, Object, at, field, lasting, objects_at, text
from kcp_py.bootstrap.installed import INSTALLER, is_installed


def _source(obj: Object) -> str:
    return INSTALLER if is_installed(obj) else NONE


def _versions(obj: Object) -> str:
    served = [version for version in objects_at(obj, "spec", "versions") if version.get("served")]
    return ",".join(sorted(text(version.get("name")) + ("(storage)" if version.get("storage") else "") for version in served))


def _short_names(obj: Object) -> str:
    return ",".join(map(text, at(obj, "spec", "names", "shortNames") or ()))


def _is_established(obj: Object) -> bool:
    conditions = objects_at(obj, "status", "conditions")
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


_SOURCE: Final = "How the definition came into the cluster: builtin for one that kcp-py builtin install made."

COLUMNS: Final = (
    NAME,
    Column("Scope", "string", "", "Cluster/Namespaced", 0, field("spec", "scope")),
    Column("Versions", "string", "", "Served versions", 0, lasting(_versions)),
    CREATED_AT,
    Column("Group", "string", "", "API group", 1, field("spec", "group")),
    Column("Kind", "string", "", "CustomResource kind", 1, field("spec", "names", "kind")),
    Column("ShortNames", "string", "", "Short names", 1, lasting(_short_names)),
    Column("Established", "boolean", "", "Established status", 1, lasting(_is_established)),
    # Not upstream's: it is for `kubectl get crd -o wide` only, so that others look as on any server.
    Column("Source", "string", "", _SOURCE, 1, lasting(_source)),
)
