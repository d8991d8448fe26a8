"""When requests are deleted."""

from __future__ import annotations

import base64

import pytest

from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.apis.certificates.binding import ClusterBinding
from kcp_py.apis.certificates.expiry import expires_at
from kcp_py.apis.certificates.signing import sign
from kcp_py.logicalcluster import Name
from tests.apis.certificates.making import DAY, NOW, condition, new_authority, new_request

CREATED = NOW.timestamp()
HOUR = 3600.0
LATER = CREATED + HOUR


def certificate(life) -> str:
    pem = sign(new_authority(), new_request("alice"), ClusterBinding(Name("a"), "0"), usages=["client auth"], life=life, now=NOW)
    return base64.b64encode(pem).decode()


def updated(kind: str) -> dict[str, str]:
    return condition(kind, lastUpdateTime=format_time(LATER))


@pytest.mark.parametrize(
    ("status", "end"),
    [
        pytest.param({}, CREATED + 24 * HOUR, id="pending"),
        pytest.param({"conditions": [updated("Denied")]}, LATER + HOUR, id="denied"),
        pytest.param({"conditions": [updated("Failed")]}, LATER + HOUR, id="failed"),
        pytest.param({"conditions": [updated("Approved")]}, LATER + 24 * HOUR, id="approved without a certificate"),
        pytest.param({"conditions": [updated("Approved")], "certificate": certificate(DAY)}, LATER + HOUR, id="issued"),
        pytest.param({"conditions": [updated("Approved")], "certificate": certificate(DAY / 48)}, CREATED + HOUR / 2, id="expired first"),
        pytest.param({"conditions": [updated("Approved")], "certificate": "AAAA"}, LATER + HOUR, id="junk"),
        pytest.param({"conditions": [updated("Approved"), updated("Failed")]}, LATER + HOUR, id="approved and failed"),
        pytest.param({"conditions": [condition("Approved")]}, None, id="without a time"),
        pytest.param({"conditions": [updated("Other")]}, None, id="other conditions alone"),
    ],
)
def test_ends(status, end):
    """Answered requests are kept for an hour and others for a day, as in upstream; a certificate that has expired ends its request."""
    assert expires_at({"metadata": {"creationTimestamp": format_time(CREATED)}, "status": status}) == end
