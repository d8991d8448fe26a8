"""Endpoints of webhooks as tenants write them: the `clientConfig` of CRDs and of configurations of admission webhooks."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, urlsplit

from kcp_py.egress.endpoint import Endpoint, Service

_INVALID_BUNDLE: Final = b"-"
"""For bundles from before they were checked. They trust nothing: the authorities of the system least of all."""


def endpoint_of(client: Mapping[str, Any]) -> Endpoint:
    """The endpoint of a valid `clientConfig`."""
    authorities = _authorities(client.get("caBundle") or "")
    if url := client.get("url"):
        return Endpoint(url if urlsplit(url).path else f"{url}/", authorities)
    service = client["service"]
    found = Service(service["namespace"], service["name"], service.get("port") or 443)
    path = quote(service.get("path") or "", safe="/:@!$&'()*+,;=~")
    return Endpoint(f"https://{found.name}.{found.namespace}.svc:{found.port}/{path.lstrip('/')}", authorities, found)


def _authorities(bundle: str) -> bytes:
    try:
        found = base64.b64decode(bundle, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    return _INVALID_BUNDLE if bundle and not found else found
