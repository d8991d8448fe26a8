"""`ClusterHosts`: logical clusters by host name, `team-a.kcp.example` for the path `/clusters/team-a`.

Some clients drop the path of a server URL, or cannot be given one. Only names of one segment are host names; the wildcard has none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kcp_py.apimachinery.errors import bad_request
from kcp_py.logicalcluster import InvalidClusterError, Name, parse_name

_CACHED_HOSTS: Final = 4096
_LONGEST_HOST: Final = 255


class ClusterHosts:
    """The host names below one domain."""

    def __init__(self, domain: str) -> None:
        """Prepare.

        Args:
            domain: the host name of the server. The names of logical clusters stand in front of it.
        """
        self._suffix = "." + domain.lower().rstrip(".")
        self._cached = lru_cache(maxsize=_CACHED_HOSTS)(self._parse)

    def cluster_of(self, host: bytes) -> Name | None:
        """The logical cluster of a Host header, with or without a port; None for hosts that are not below the domain.

        Raises:
            StatusError: 400 for a host below the domain that does not name a cluster.
        """
        return self._cached(host) if len(host) <= _LONGEST_HOST else self._parse(host)

    def _parse(self, host: bytes) -> Name | None:
        text = host.decode("latin-1").strip(" \t").lower()
        # An IPv6 address, whose colons separate no port, is below no domain.
        text = text.partition(":")[0].removesuffix(".")
        if not text.endswith(self._suffix):
            return None
        label = text.removesuffix(self._suffix)
        try:
            return parse_name(label)
        except InvalidClusterError as error:
            raise bad_request(f"the host names no logical cluster: {error}") from None
