"""`upstream_resources`: kinds of Kubernetes that every cluster of a server has, without a CRD in any of them.

They are made of the same CRDs that can be installed in a single cluster, and are stored where built-in kinds are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.upstream.crds import crds_named
from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.registry.catalog.compilation import NONE, Settings, compile_crd
from kcp_py.registry.conversion import NoWebhooks
from kcp_py.registry.resource import DefaultObjects, ServedResource
from kcp_py.schema.crd.validation import default_crd

_ESTABLISHED: Final = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]


def upstream_resources(
    root: str,
    names: Iterable[str],
    defaults: Mapping[GroupResource, DefaultObjects] = NONE,
    kinds: UpstreamKinds | None = None,
) -> tuple[ServedResource, ...]:
    """The kinds as served resources, in each version that their CRDs have.

    Args:
        root: the store's prefix, such as `/registry`.
        names: see `upstream_names.find_kinds`.
        defaults: the objects that clusters have of these kinds without storing them.
        kinds: with what their subresources work with; None for kinds without these.

    Raises:
        UnknownKindError: a name stands for nothing that is known.
    """
    settings = Settings(root, NoWebhooks(), defaults, kinds or UpstreamKinds(), identity="")
    found: list[ServedResource] = []
    for crd in crds_named(names):
        default_crd(crd)
        crd["status"] = {"acceptedNames": crd["spec"]["names"], "conditions": _ESTABLISHED}
        found += compile_crd(crd, settings).resources
    return tuple(found)
