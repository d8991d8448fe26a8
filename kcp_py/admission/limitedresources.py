"""`ResourceQuota` with a configuration: objects that use limited resources need a quota that covers them.

A quota that is deleted at the same moment may still cover a write, as upstream.

Source: k8s.io/apiserver `pkg/admission/plugin/resourcequota`, `apis/resourcequota/v1/types.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcp_py.admission.configuration import FLAG, Document, read_fields
from kcp_py.admission.resourcequota import ResourceQuota, change_of
from kcp_py.apimachinery import fielderrors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.options import OptionsError
from kcp_py.registry.admission import Attributes
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.quota.limited import SCOPED, LimitedResource, check_covered
from kcp_py.registry.quota.usage import IGNORED, Scope

_GROUP: Final = "resourcequota.admission.k8s.io"
_KINDS: Final = {
    "apiserver.config.k8s.io/v1": "ResourceQuotaConfiguration",
    f"{_GROUP}/v1beta1": "Configuration",
    f"{_GROUP}/v1alpha1": "Configuration",
}
_SCOPE: Final = {"scopeName": str, "operator": str, "values": [str]}
_SHAPE: Final[Any] = {"limitedResources": [{"apiGroup": str, "resource": str, "matchContains": [str], "matchScopes": [_SCOPE]}]}


def parse_limited_resources(document: Document | None) -> Sequence[LimitedResource]:
    """The limited resources of the configuration.

    Raises:
        OptionsError: it is invalid, with upstream's texts.
    """
    if document is None:
        return ()
    version = document.content.get("apiVersion") if isinstance(document.content, dict) else ""
    kind = _KINDS.get(version if isinstance(version, str) else "", "ResourceQuotaConfiguration")
    fields = read_fields(document, [one for one, of in _KINDS.items() if of == kind], kind, _SHAPE, strict=True)
    entries: list[Mapping[str, Any]] = [one or {} for one in fields.get("limitedResources") or ()]
    if problems := [
        fielderrors.required(f"limitedResources[{index}].resource") for index, one in enumerate(entries) if not one.get("resource")
    ]:
        raise OptionsError(f"{FLAG}: {document.origin}: {fielderrors.aggregate(problems)}")
    return [
        LimitedResource(
            GroupResource(one.get("apiGroup") or "", one["resource"]),
            tuple(part or "" for part in one.get("matchContains") or ()),
            tuple(
                Scope(scope.get("scopeName") or "", scope.get("operator") or "", tuple(value or "" for value in scope.get("values") or ()))
                for scope in one.get("matchScopes") or ()
                if scope
            ),
        )
        for one in entries
    ]


class LimitedResourceQuota(ResourceQuota):
    """`ResourceQuota` with a configuration."""

    only_dry_runs = False

    def __init__(self, ledger: QuotaLedger, limited: Sequence[LimitedResource]) -> None:
        """Limit resources by default. `limited` is not empty."""
        super().__init__(ledger)
        self._limited = limited
        scoped = SCOPED if any(one.scopes for one in limited) else frozenset()
        self._resources: Final = ({one.resource for one in limited} | scoped) - IGNORED

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether the cluster has no quotas and the resource is not limited."""
        return resource not in self._resources and super().ignores(cluster, resource)

    def follow(self, changed: Callable[[], None]) -> bool:  # noqa: ARG002 - nothing changes
        """Writes that are stored are concerned by their resource, which the configuration decides once."""
        return True

    async def validate(self, attributes: Attributes) -> None:
        """Judge a dry run, and each use of a limited resource.

        Raises:
            StatusError: 403, a quota would be exceeded, or there is none.
        """
        resource = attributes.resource
        limited = resource.namespaced and resource.group_resource in self._resources and not attributes.subresource
        if limited and attributes.obj is not None:
            quotas = await self._ledger.quotas(attributes.cluster, attributes.namespace)
            check_covered(self._limited, quotas, change_of(attributes))
        await super().validate(attributes)
