"""The names of batteries: the selections of built-in resources that a server may do without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

BATTERIES: Final[Mapping[str, str]] = MappingProxyType({
    "admission-webhooks": "webhooks of tenants that see writes",
    "aggregation": "APIServices, which are stored and not enforced",
    "authentication": "reviews of users and tokens, issuers of tokens of single clusters",
    "authorization": "reviews of access",
    "certificates": "CertificateSigningRequests with their signer",
    "core": "ConfigMaps, Secrets and ComponentStatuses",
    "crds": "CustomResourceDefinitions and the resources that they define",
    "events": "Events in both of their groups",
    "flow-control": "FlowSchemas and PriorityLevelConfigurations, which are stored and not enforced",
    "leases": "Leases, by which programs elect leaders",
    "logical-clusters": "LogicalClusters as objects: their creation, deletion, limits and usage",
    "namespaces": "Namespaces, and with them every namespaced resource",
    "policies": "ValidatingAdmissionPolicies and MutatingAdmissionPolicies",
    "quotas": "ResourceQuotas and LimitRanges",
    "rbac": "roles and bindings, and the authorizer that reads them",
    "service-accounts": "ServiceAccounts and their tokens",
})  # fmt: skip
"""Name -> content."""
ON_REQUEST: Final = frozenset({"aggregation", "flow-control"})
"""Those that `*` does not stand for."""


def select_batteries(selection: Sequence[str]) -> frozenset[str]:
    """The batteries of a selection: `*` stands for all that are on by default, `foo` adds foo, `-foo` removes it. `none` alone is empty.

    Raises:
        ValueError: the selection names something else.
    """
    if tuple(selection) == ("none",):
        return frozenset()
    names = {one.removeprefix("-") for one in selection}
    if unknown := sorted(names - {"*", *BATTERIES}):
        raise ValueError(f"unknown batteries: {', '.join(unknown)}; there are {', '.join(BATTERIES)}")
    found = {one for one in selection if one in BATTERIES}
    if "*" in selection:
        found |= BATTERIES.keys() - ON_REQUEST
    return frozenset(found - {one.removeprefix("-") for one in selection if one.startswith("-")})


def parse_batteries(text: str) -> tuple[str, ...]:
    """A selection from a list with commas; the word `none` stands for an empty one.

    Raises:
        ValueError: see `select_batteries`.
    """
    selection = tuple(one for part in text.split(",") if (one := part.strip()))
    if selection == ("none",):
        return ()
    select_batteries(selection)
    return selection


def render_batteries(selection: Sequence[str]) -> str:
    """The text that `parse_batteries` reads as the same selection."""
    return ",".join(selection) or "none"
