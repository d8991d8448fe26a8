"""`OpenIDPages`: the discovery document and the keys of the issuer that each logical cluster is.

They are read with a permission in the cluster, like its other paths. The ClusterRole `system:service-account-issuer-discovery` has it.
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.errors import StatusError, unknown_path
from kcp_py.authn.serviceaccount.openid import CONFIGURATION_PATH, KEYS_PATH, MAX_AGE, OpenIDDocuments
from kcp_py.logicalcluster import Wildcard
from kcp_py.server.accept import names_any_of
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.target import method_not_allowed, resolve_cluster

_TYPES: Final = {CONFIGURATION_PATH: "application/json", KEYS_PATH: "application/jwk-set+json"}
_CACHE: Final = ((b"cache-control", f"public, max-age={MAX_AGE}".encode()),)


class OpenIDPages:
    """Answers the two paths, in each cluster."""

    def __init__(self, backend: Backend, documents: OpenIDDocuments) -> None:
        self._backend = backend
        self._documents = documents

    async def respond(self, exchange: Exchange) -> bool:
        """Answer a request for one of the documents.

        Returns:
            Whether it was one.

        Raises:
            StatusError: 403 for a cluster that does not exist, 404 over all clusters, 405, 406.
        """
        path = exchange.path.removesuffix("/")
        media_type = _TYPES.get(path)
        if media_type is None:
            return False
        context = exchange.context
        if isinstance(context.cluster, Wildcard):
            raise unknown_path()
        if exchange.method != "GET":
            raise method_not_allowed()
        accept = exchange.headers.get(b"accept", b"").decode("latin-1")
        if accept and not names_any_of(accept, (media_type,)):
            message = f"406: Not Acceptable\n\nAvailable representations: {media_type}"
            raise StatusError(406, "NotAcceptable", message, details={})
        await resolve_cluster(self._backend, context, context.cluster)
        documents = self._documents
        body = await (documents.keys() if path == KEYS_PATH else documents.configuration(context.cluster))
        await exchange.respond(200, body, media_type.encode(), _CACHE)
        return True
