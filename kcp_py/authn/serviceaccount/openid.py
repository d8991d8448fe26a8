"""The documents with which other systems verify the tokens of a cluster: OpenID Connect discovery and the JSON Web Key Set.

Source: kubernetes `pkg/serviceaccount/openidmetadata.go`, `pkg/routes/openidmetadata.go`.
"""

from __future__ import annotations

from typing import Final

import orjson

from kcp_py.authn.serviceaccount.claims import Issuers
from kcp_py.authn.serviceaccount.keyring import Keyring
from kcp_py.logicalcluster import Name

CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
MAX_AGE: Final = 3600
"""Seconds for which the documents may be cached. A key signs later than that after its publication (`keyring.SETTLING`)."""


class OpenIDDocuments:
    """The documents of all clusters. Clusters differ in the issuer alone."""

    def __init__(self, keyring: Keyring, issuers: Issuers) -> None:
        """Prepare.

        Args:
            keyring: the keys.
            issuers: of the clusters.
        """
        self._keyring = keyring
        self._issuers = issuers

    async def configuration(self, cluster: Name) -> bytes:
        """The discovery document of the issuer of a cluster, as JSON."""
        issuer = self._issuers.of(cluster)
        keys = await self._keyring.verifying()
        document = {
            "issuer": issuer,
            "jwks_uri": self._issuers.keys_url(cluster, KEYS_PATH),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys.values()}),
        }
        return orjson.dumps(document)

    async def keys(self) -> bytes:
        """The key set, as JSON: all keys whose tokens are valid, and those that will sign next."""
        return orjson.dumps({"keys": [key.document() for key in (await self._keyring.verifying()).values()]})
