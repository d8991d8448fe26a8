"""`CertificateApproval`, `CertificateSigning`, `ClusterTrustBundleAttest`: permissions to approve, to sign and to publish for a signer.

They are the verbs `approve`, `sign` and `attest` on `signers` of `certificates.k8s.io`. The name of the resource is that of the signer,
or `DOMAIN/*` for all signers of a domain.

Source: kubernetes `plugin/pkg/admission/certificates/{approval,signing,ctbattest}` and `pkg/certauthorization`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.certificates.install import GROUP, SIGNING_REQUESTS
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.rbac.escalation import is_for_the_collector
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.request.requestinfo import UNPARSED

_TRUST_BUNDLES: Final = GroupResource(GROUP, "clustertrustbundles")


class _SignerPermission(AdmissionPlugin, ABC):
    conforming = True
    operations = frozenset[Operation]({"UPDATE"})
    resources = frozenset({SIGNING_REQUESTS.group_resource})
    _verb: str

    def __init__(self, authorizer: Authorizer) -> None:
        """Prepare. `authorizer` is asked for the verb of the plugin."""
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        """Check the caller.

        Raises:
            StatusError: 403.
        """
        if not self._needs_permission(attributes):
            return
        # The signer is that of the stored object.
        signer = ((attributes.old or {}).get("spec") or {}).get("signerName") or ""
        if not await self._allows(attributes, signer):
            message = f"user not permitted to {self._verb} requests with signerName {go_quote(signer)}"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)

    @abstractmethod
    def _needs_permission(self, attributes: Attributes) -> bool:
        """Whether the update is of the kind that the plugin restricts."""

    async def _allows(self, attributes: Attributes, signer: str) -> bool:
        return await _is_allowed(self._authorizer, attributes, self._verb, signer)


class CertificateApproval(_SignerPermission):
    """Refuses updates of `/approval` by users who may not approve requests of the signer."""

    name = "CertificateApproval"
    _verb = "approve"

    def _needs_permission(self, attributes: Attributes) -> bool:
        return attributes.subresource == "approval"


class CertificateSigning(_SignerPermission):
    """Refuses changes of certificate and conditions through `/status` by users who may not sign for the signer."""

    name = "CertificateSigning"
    _verb = "sign"

    def _needs_permission(self, attributes: Attributes) -> bool:
        status, before = ((one or {}).get("status") or {} for one in (attributes.obj, attributes.old))
        return attributes.subresource == "status" and any(
            (status.get(field) or None) != (before.get(field) or None) for field in ("certificate", "conditions")
        )


class ClusterTrustBundleAttest(AdmissionPlugin):
    """Refuses certificates of authorities that a user may not publish for a signer."""

    name = "ClusterTrustBundleAttest"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({_TRUST_BUNDLES})

    def __init__(self, authorizer: Authorizer) -> None:
        """Prepare. `authorizer` is asked for the verb `attest`."""
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        """Check the caller. Updates that garbage collection needs are allowed. The signer of a bundle cannot be changed.

        Raises:
            StatusError: 403.
        """
        bundle, old = attributes.obj, attributes.old
        if bundle is None or attributes.subresource or not attributes.resource.typed:
            return
        signer = (bundle.get("spec") or {}).get("signerName")
        if not signer or (old is not None and is_for_the_collector(bundle, old)):
            return
        if not await _is_allowed(self._authorizer, attributes, "attest", signer):
            message = f"user not permitted to attest for signerName {go_quote(signer)}"
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, message)


async def _is_allowed(authorizer: Authorizer, attributes: Attributes, verb: str, signer: str) -> bool:
    info = UNPARSED._replace(is_resource=True, verb=verb, group=GROUP, version="*", resource="signers")
    for name in (signer, f"{signer.partition('/')[0]}/*"):
        decision = await authorizer.authorize(attributes.user, attributes.cluster, info._replace(name=name))
        if decision is not None and decision.allowed:
            return True
    return False
