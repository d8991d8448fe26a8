"""Kinds that a real server enforces and this server only stores. Clients receive a warning when they write them.

A feature that enforces a kind removes its row, and the warnings of the server and of `kcp-py builtin install` end with it. RBAC kinds are
not listed: until they are enforced every request of an unprivileged user is refused, so a missing role grants no access.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"

UNENFORCED: Final[Mapping[tuple[str, str], str]] = MappingProxyType({
    ("apiregistration.k8s.io", "apiservices"): "no request is forwarded to an aggregated API server",
    (_FLOW_CONTROL, "flowschemas"): "no request is classified by it",
    (_FLOW_CONTROL, "prioritylevelconfigurations"): "no request is queued or limited by it",
    ("networking.k8s.io", "networkpolicies"): "no network traffic is filtered",
})  # fmt: skip
"""(group, plural) -> what does not happen."""


def unenforced_warning(group: str, plural: str) -> str:
    """The warning about objects of a resource; empty for all that is enforced or needs no enforcement."""
    missing = UNENFORCED.get((group, plural))
    if missing is None:
        return ""
    return f"{plural}.{group or 'core'}: kcp-py stores these objects and does not enforce them: {missing}"
