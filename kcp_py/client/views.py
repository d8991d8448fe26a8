"""`ClusterViews`: from a client of all clusters to the API of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from kcp_py.client.contract import FIELD_MANAGER
from kcp_py.logicalcluster import Wildcard, parse_name

if TYPE_CHECKING:
    from kcp_py.client.clusterclient import ClusterClient, ClusterReader


class ClusterViews:
    """The base of clients: their views of one cluster and of all."""

    @overload
    def cluster(self, name: str, *, namespace: str = "default", field_manager: str = FIELD_MANAGER) -> ClusterClient: ...

    @overload
    def cluster(self, name: Wildcard) -> ClusterReader: ...

    def cluster(self, name: str | Wildcard, *, namespace: str = "default", field_manager: str = FIELD_MANAGER) -> ClusterReader:
        """The API of one logical cluster with typed objects; with `WILDCARD` lists and watches of all.

        Args:
            name: of the cluster.
            namespace: of objects that name none.
            field_manager: owns the fields that are written.

        Raises:
            ValueError: no cluster can have the name.
        """
        # The server itself uses clients without typed objects.
        from kcp_py.client.clusterclient import ClusterClient, ClusterReader  # noqa: PLC0415

        client: Any = self
        if isinstance(name, Wildcard):
            return ClusterReader(client, name)
        return ClusterClient(client, parse_name(name), namespace=namespace, field_manager=field_manager)
