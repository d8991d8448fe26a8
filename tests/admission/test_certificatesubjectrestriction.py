"""Requests for certificates with names of the server."""

from __future__ import annotations

import pytest

from tests.apis.certificates.making import signing_request
from tests.server.handlers.conftest import Api, api

__all__ = ["api"]
pytestmark = pytest.mark.anyio
REQUESTS = "/clusters/team-a/apis/certificates.k8s.io/v1/certificatesigningrequests"


async def test_names_of_the_server_are_refused(api: Api):
    """The signer of client certificates gets no request with a name that begins with `system:`; the text for masters is upstream's."""
    refused = await api.fails(403, "POST", REQUESTS, signing_request("one", groups=["dev", "system:masters"]))
    assert refused["message"] == (
        'certificatesigningrequests.certificates.k8s.io "one" is forbidden: use of kubernetes.io/kube-apiserver-client signer with '
        "system:masters group is not allowed"
    )
    refused = await api.fails(403, "POST", REQUESTS, signing_request("one", "system:kube-controller-manager"))
    assert refused["message"].endswith('signer with user "system:kube-controller-manager" is not allowed')
    await api.ok("POST", REQUESTS, signing_request("one", groups=["dev"]))


async def test_other_signers_decide_themselves(api: Api):
    """Requests of other signers may have any name: this server signs none of them."""
    await api.ok("POST", REQUESTS, signing_request("one", groups=["system:masters"], signerName="example.com/signer"))


async def test_a_request_that_cannot_be_read_is_invalid(api: Api):
    """Validation has the word before this rule."""
    await api.fails(422, "POST", REQUESTS, signing_request("one", request="AAAA"))
