"""Controller `certificatesigningrequest-approving-controller`: requests of kubelets are approved where permissions say so.

The requester needs the verb `create` on the subresource `selfnodeclient` (for its own name) or `nodeclient` of CertificateSigningRequests.
Nothing here signs these requests: names that begin with `system:` belong to the server. Signers of clusters may do so.

Source: kubernetes `pkg/controller/certificates/approver`, `pkg/apis/certificates/helpers.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from cryptography import x509

from kcp_py.aio.offload import offload
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.apis.certificates.requests import RequestError, common_names, decoded, organizations, parse_request
from kcp_py.apis.certificates.validation import APPROVED, DENIED, conditions_of, has_condition
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import APPROVING
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, own_key
from kcp_py.controllers.runtime.queue import Key

KUBELET_SIGNER: Final = "kubernetes.io/kube-apiserver-client-kubelet"
REVIEWS: Final = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_USAGES: Final = ({"digital signature", "client auth"}, {"digital signature", "client auth", "key encipherment"})
_MESSAGES: Final = {
    "selfnodeclient": "Auto approving self kubelet client certificate after SubjectAccessReview.",
    "nodeclient": "Auto approving kubelet client certificate after SubjectAccessReview.",
}
_SIGNER: Final = KUBELET_SIGNER.encode()


class KubeletRequestController:
    """Approves requests for client certificates of kubelets."""

    name = APPROVING
    per_cluster = 1

    def __init__(self, client: Client) -> None:
        """Make the controller. `client` is of all clusters."""
        self._client = client

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Requests of this signer."""
        return (ControllerSource(SIGNING_REQUESTS, self.keys, ObjectFilter(contains=((_SIGNER,),))),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The request, if it may be of this signer."""
        return own_key(change) if change.value is not None and _SIGNER in change.value else ()

    async def reconcile(self, key: Key) -> int:
        obj = await find(self._client, SIGNING_REQUESTS, key)
        if obj is None or obj["spec"].get("signerName") != KUBELET_SIGNER:
            return 0
        status = obj.get("status") or {}
        if status.get("certificate") or has_condition(obj, APPROVED) or has_condition(obj, DENIED):
            return 0
        for subresource in await offload(_permissions, obj["spec"]):
            if await self._is_allowed(key, obj["spec"], subresource):
                condition = {"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": _MESSAGES[subresource]}
                approved = {**obj, "status": {**status, "conditions": [*conditions_of(obj), condition]}}
                await self._client.update(key.cluster, SIGNING_REQUESTS, approved, subresource="approval")
                break
        return 0

    async def _is_allowed(self, key: Key, spec: dict[str, Any], subresource: str) -> bool:
        """Whether the requester may have such a certificate."""
        attributes = {
            "group": SIGNING_REQUESTS.group,
            "version": "*",
            "resource": SIGNING_REQUESTS.resource,
            "subresource": subresource,
            "verb": "create",
        }
        fields = {"user": "username", "uid": "uid", "groups": "groups", "extra": "extra"}
        user = {name: spec[field] for name, field in fields.items() if field in spec}
        review = await self._client.create(key.cluster, REVIEWS, {"spec": {**user, "resourceAttributes": attributes}})
        return review["status"]["allowed"] is True


def _permissions(spec: dict[str, Any]) -> Sequence[str]:
    """The permissions of which one allows a request; none where it does not ask for the certificate of a kubelet."""
    if set(spec.get("usages") or ()) not in _USAGES:
        return ()
    try:
        request = parse_request(decoded(spec.get("request")))
        names = common_names(request)
        if list(organizations(request)) != ["system:nodes"] or len(names) != 1 or not names[0].startswith("system:node:"):
            return ()
    except RequestError:
        return ()
    try:
        request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ("selfnodeclient", "nodeclient") if spec.get("username") == names[0] else ("nodeclient",)
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        pass
    return ()
