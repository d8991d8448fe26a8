"""`CertificateSubjectRestriction`: no request for a client certificate names a user or a group of the server.

Source: kubernetes `plugin/pkg/admission/certificates/subjectrestriction`.
"""

from __future__ import annotations

from kcp_py.aio.offload import offload
from kcp_py.apimachinery import errors
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.apis.certificates.requests import RequestError, decoded, parse_request
from kcp_py.apis.certificates.subjects import reserved_name_problem
from kcp_py.apis.certificates.validation import CLIENT_SIGNER
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation


class CertificateSubjectRestriction(AdmissionPlugin):
    """Refuses requests for the signer of client certificates whose subject has a name that begins with `system:`."""

    name = "CertificateSubjectRestriction"
    conforming = True
    operations = frozenset[Operation]({"CREATE"})
    resources = frozenset({SIGNING_REQUESTS.group_resource})

    async def validate(self, attributes: Attributes) -> None:
        """Look at the subject of a valid request.

        Raises:
            StatusError: 403.
        """
        spec = (attributes.obj or {}).get("spec") or {}
        if attributes.subresource or spec.get("signerName") != CLIENT_SIGNER:
            return
        if problem := await offload(_problem, spec.get("request")):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, problem)


def _problem(request: object) -> str:
    try:
        return reserved_name_problem(parse_request(decoded(request)))
    except RequestError as error:
        return f"failed to parse CSR: {error}"
