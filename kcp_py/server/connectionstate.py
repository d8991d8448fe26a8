"""What `scope["state"]` holds about the connection of a request, put there by the server's protocol class."""

from __future__ import annotations

from typing import Final

PEER_CERTIFICATE: Final = "peer_certificate"
PROXY_CERTIFICATE: Final = "proxy_certificate"
"""The client's verified certificate (DER bytes)."""
SERVER_NAME: Final = "server_name"
"""The host name of the TLS handshake; absent or None where the client sent none."""
