"""`DenyServiceExternalIPs`: no service takes external addresses of its author's choice.

Source: kubernetes `plugin/pkg/admission/network/denyserviceexternalips`.
"""

from __future__ import annotations

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation


class DenyServiceExternalIPs(AdmissionPlugin):
    """Refuses services with external addresses that the stored one does not have."""

    name = "DenyServiceExternalIPs"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({GroupResource("", "services")})

    def validate(self, attributes: Attributes) -> None:
        """Compare the addresses.

        Raises:
            StatusError: 403.
        """
        if attributes.subresource or not attributes.resource.typed:
            return
        given, stored = (((one or {}).get("spec") or {}).get("externalIPs") or () for one in (attributes.obj, attributes.old))
        if not set(given) <= set(stored):
            message = "Use of external IPs is denied by admission control"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)
