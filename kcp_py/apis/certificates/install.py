"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apis.certificates.columns import SIGNING_REQUEST
from kcp_py.apis.certificates.strategy import SigningRequestStrategy
from kcp_py.apis.kindrules import Installed, KindRules

GROUP: Final = "certificates.k8s.io"
SIGNING_REQUESTS: Final = GroupVersionResource(GROUP, "v1", "certificatesigningrequests")


def install() -> Installed:
    """The rules of each kind."""
    labels = {"spec.signerName": "spec.signerName"}
    return {GroupResource(GROUP, SIGNING_REQUESTS.resource): KindRules(SigningRequestStrategy, SIGNING_REQUEST, labels)}
