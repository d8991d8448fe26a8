"""The controllers that sign approved CertificateSigningRequests and that delete old ones.

They are `certificatesigningrequest-signing-controller` and `certificatesigningrequest-cleaner-controller`.

Source: kubernetes `pkg/controller/certificates/{signer,cleaner}`. The signers of kubelets do not exist here: there are no nodes.
"""

from __future__ import annotations

import base64
import datetime as dt
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from kcp_py.aio.offload import offload
from kcp_py.apimachinery import errors
from kcp_py.apis.certificates.binding import ClusterBinding
from kcp_py.apis.certificates.expiry import expires_at
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.apis.certificates.requests import RequestError, decoded, parse_request
from kcp_py.apis.certificates.signing import AuthorityError, SigningAuthority, key_problem, life_of, sign
from kcp_py.apis.certificates.subjects import signing_problem
from kcp_py.apis.certificates.validation import APPROVED, CLIENT_SIGNER, DENIED, FAILED, conditions_of, has_condition
from kcp_py.client import Client, ObjectFilter
from kcp_py.controllers.names import SIGNING, SIGNING_REQUEST_CLEANER
from kcp_py.controllers.objects import delete_at_end, find
from kcp_py.controllers.runtime.controller import ControllerSource, Later, own_key
from kcp_py.controllers.runtime.queue import Key
from kcp_py.tenancy import LOGICAL_CLUSTER

_APPROVED: Final = ObjectFilter(contains=((b'"Approved"', CLIENT_SIGNER.encode()),))


class AuthorityFiles:
    """The certificate authority of the server, which is read for every certificate: it may be renewed or replaced at any time."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key

    def load(self) -> SigningAuthority:
        """Read the files. It blocks.

        Raises:
            AuthorityError: one of them cannot be used.
        """
        try:
            return SigningAuthority.load(self._certificate.read_bytes(), self._key.read_bytes())
        except OSError as error:
            raise AuthorityError(f"{error.filename}: {error.strerror}") from None


class SigningController:
    """Signs approved requests for `kubernetes.io/kube-apiserver-client` with the authority of the server, each for its cluster alone."""

    name = SIGNING
    per_cluster = 1

    def __init__(
        self,
        client: Client,
        authority: Callable[[], SigningAuthority],
        *,
        longest: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            authority: reads the authority; called in a thread.
            longest: seconds for which a certificate is valid at the most, and without `spec.expirationSeconds`.
            clock: Unix seconds.
        """
        self._client = client
        self._authority = authority
        self._longest = dt.timedelta(seconds=longest)
        self._clock = clock

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Requests of this signer that are approved."""
        return (ControllerSource(SIGNING_REQUESTS, own_key, _APPROVED),)

    async def reconcile(self, key: Key) -> int:
        obj = await find(self._client, SIGNING_REQUESTS, key)
        if obj is None or not _wants_signature(obj):
            return 0
        # The request belongs to the cluster of this moment: in a later one of its name the update below finds no such object.
        cluster = await self._client.get(key.cluster, LOGICAL_CLUSTER, "", "cluster")
        binding = ClusterBinding(key.cluster, cluster["metadata"]["uid"])
        try:
            status = await offload(self._signed, obj, binding)
        except AuthorityError as error:
            raise errors.internal(str(error)) from None
        await self._client.update(key.cluster, SIGNING_REQUESTS, {**obj, "status": status}, subresource="status")
        return 0

    def _signed(self, obj: dict[str, Any], binding: ClusterBinding) -> dict[str, Any]:
        """The status of a request with its certificate, or with the reason why there will be none."""
        spec, status = obj["spec"], obj["status"]
        usages = spec.get("usages") or ()
        try:
            request = parse_request(decoded(spec.get("request")))
            problem = signing_problem(request, usages) or key_problem(request)
        except RequestError as error:
            problem = str(error)
        if problem:
            failure = {"type": FAILED, "status": "True", "reason": "SignerValidationFailure", "message": problem}
            return {**status, "conditions": [*conditions_of(obj), failure]}
        life = life_of(spec.get("expirationSeconds"), self._longest)
        now = dt.datetime.fromtimestamp(self._clock(), dt.UTC)
        certificate = sign(self._authority(), request, binding, usages=usages, life=life, now=now)
        return {**status, "certificate": base64.b64encode(certificate).decode("ascii")}


class SigningRequestCleaner:
    """Deletes requests that were answered an hour ago, and those that nothing has answered for a day."""

    name = SIGNING_REQUEST_CLEANER
    per_cluster = 1

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            clock: Unix seconds.
        """
        self._client = client
        self._clock = clock

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """All requests."""
        return (ControllerSource(SIGNING_REQUESTS),)

    async def reconcile(self, key: Key) -> int | Later:
        return await delete_at_end(self._client, SIGNING_REQUESTS, key, ends_at=expires_at, now=self._clock())


def _wants_signature(obj: dict[str, Any]) -> bool:
    return (
        obj["spec"].get("signerName") == CLIENT_SIGNER
        and has_condition(obj, APPROVED)
        and not has_condition(obj, DENIED)
        and not has_condition(obj, FAILED)
        and not obj["status"].get("certificate")
    )
