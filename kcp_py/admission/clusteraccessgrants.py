"""`ClusterAccessGrantEscalation`: only administrators of all clusters grant permissions in several of them."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apis.access import GRANTS
from kcp_py.apis.rbac.policy import KCP_ADMINS
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.request.user import SYSTEM_MASTERS

_ADMINISTRATORS: Final = frozenset((SYSTEM_MASTERS, KCP_ADMINS))


class ClusterAccessGrantEscalation(AdmissionPlugin):
    """Refuses grants of others, whatever roles in `root` allow: an administrator of `root` would become one of every cluster.

    A deletion takes permissions away. For that the roles are enough.
    """

    name = "ClusterAccessGrantEscalation"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({GRANTS})

    async def validate(self, attributes: Attributes) -> None:
        """Check the groups of the author.

        Raises:
            StatusError: 403.
        """
        if _ADMINISTRATORS.isdisjoint(attributes.user.groups):
            message = "only administrators of all clusters can grant permissions in several clusters"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)
