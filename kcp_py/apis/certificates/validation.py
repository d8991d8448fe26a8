"""Validation of CertificateSigningRequests (kubernetes `pkg/apis/certificates/validation`).

What upstream tolerates in objects that older versions have stored is not tolerated: there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography import x509

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta.names import dns_label_problems, dns_subdomain_problems
from kcp_py.apis.certificates.requests import CERTIFICATE, RequestError, decoded, parse_request, pem_blocks
from kcp_py.golang.quoting import go_quote

Object = Mapping[str, Any]

CLIENT_SIGNER: Final = "kubernetes.io/kube-apiserver-client"
LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"
APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
SHORTEST_EXPIRATION: Final = 600
"""Seconds."""
MAX_CERTIFICATE_BYTES: Final = 128 * 1024
"""Of a chain in `status.certificate`: longer ones would take long to read. Upstream has no limit but that of all objects."""
USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only",
    "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement",
    "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip

_STATUSES: Final = ("False", "True", "Unknown")
_MEMBERS: Final = ('conditions[{"type": "Approved"}]', 'conditions[{"type": "Denied"}]')
_FORM: Final = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
_LONGEST_DOMAIN: Final = 253
_LONGEST_SIGNER: Final = _LONGEST_DOMAIN + 1 + 253 + 63 + 1


def new_request_problems(obj: Object) -> list[FieldError]:
    """The problems of a new request, its signature included."""
    spec = obj.get("spec") or {}
    problems = []
    try:
        parse_request(decoded(spec.get("request")))
    except RequestError as error:
        problems.append(invalid("spec.request", spec.get("request"), str(error)))
    problems += _usage_problems(spec.get("usages") or ())
    signer = spec.get("signerName") or ""
    if signer == LEGACY_SIGNER:
        problems.append(invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version"))
    else:
        problems += signer_name_problems(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < SHORTEST_EXPIRATION:
        problems.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"))
    return problems


def changed_request_problems(obj: Object, old: Object, subresource: str) -> list[FieldError]:
    """The problems of an update. The specification is that of the stored object, which was checked when it was created.

    Args:
        obj: the request after the update.
        old: before.
        subresource: through which it is updated: `approval`, `status` or none.
    """
    conditions, before = conditions_of(obj), conditions_of(old)
    certificate, present = (decoded((one.get("status") or {}).get("certificate")) for one in (obj, old))
    problems = _condition_problems(conditions)
    if certificate != present and (problem := _certificate_problem(certificate)):
        problems.append(invalid("status.certificate", "<certificate data>", problem))
    path = "status.conditions"
    for kind in (APPROVED, DENIED, FAILED):
        if len(_of_type(conditions, kind)) < len(_of_type(before, kind)):
            problems.append(forbidden(path, f"updates may not remove a condition of type {go_quote(kind)}"))
    for kind in () if subresource == "approval" else (APPROVED, DENIED):
        # Other changes of these conditions have been undone by then, as in upstream.
        if len(_of_type(conditions, kind)) > len(_of_type(before, kind)):
            problems.append(forbidden(path, f"updates may not add a condition of type {go_quote(kind)}"))
    if certificate != present and subresource != "status":
        problems.append(forbidden("status.certificate", "updates may not set certificate content"))
    elif certificate != present and present:
        problems.append(forbidden("status.certificate", "updates may not modify existing certificate content"))
    return problems


def conditions_of(obj: Object) -> Sequence[Object]:
    """The conditions of a request."""
    return (obj.get("status") or {}).get("conditions") or ()


def has_condition(obj: Object, kind: str) -> bool:
    """Whether a request has a condition of a type."""
    return any(condition.get("type") == kind for condition in conditions_of(obj))


def signer_name_problems(name: str, path: str) -> list[FieldError]:
    """The problems of the name of a signer (kubernetes `ValidateSignerName`)."""
    if not name:
        return [required(path)]
    segments = name.split("/")
    if len(segments) != 2:
        return [invalid(path, name, _FORM)]
    domain, rest = segments
    problems = [too_long(path, _LONGEST_DOMAIN)] if len(domain) > _LONGEST_DOMAIN else []
    problems += _label_problems(domain, path, dns_label_problems)
    if "." not in domain:
        problems.append(invalid(path, domain, "should be a domain with at least two segments separated by dots"))
    problems += _label_problems(rest, path, dns_subdomain_problems)
    if len(name) > _LONGEST_SIGNER:
        problems.append(too_long(path, _LONGEST_SIGNER))
    return problems


def _label_problems(segment: str, path: str, rule: Any) -> list[FieldError]:
    """The problems of the first part between dots that has any."""
    for label in segment.split("."):
        if found := rule(label):
            return [invalid(path, segment, f"validating label {go_quote(label)}: {text}") for text in found]
    return []


def _usage_problems(usages: Sequence[str]) -> list[FieldError]:
    if not usages:
        return [required("spec.usages")]
    problems = [not_supported(f"spec.usages[{index}]", usage, USAGES) for index, usage in enumerate(usages) if usage not in USAGES]
    seen = set()
    for index, usage in enumerate(usages):
        if usage in seen:
            problems.append(duplicate(f"spec.usages[{index}]", usage))
        seen.add(usage)
    return problems


def _condition_problems(conditions: Sequence[Object]) -> list[FieldError]:
    problems = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path = f"status.conditions[{index}]"
        kind, status = condition.get("type") or "", condition.get("status") or ""
        allowed = ("True",) if kind in {APPROVED, DENIED, FAILED} else _STATUSES
        if not kind:
            problems.append(required(f"{path}.type"))
        if not status:
            problems.append(required(f"{path}.status"))
        elif status not in allowed:
            problems.append(not_supported(f"{path}.status", status, allowed))
        if kind in seen:
            problems.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
    if {APPROVED, DENIED} <= seen:
        detail = "must specify at most one of: " + ", ".join(f"`{member}`" for member in _MEMBERS)
        problems.append(invalid("status.conditions", f"{{{', '.join(_MEMBERS)}}}", detail))
    return problems


def _of_type(conditions: Sequence[Object], kind: str) -> list[Object]:
    return [condition for condition in conditions if condition.get("type") == kind]


def _certificate_problem(pem: bytes) -> str:
    """Why a text is not a chain of certificates; empty where it is one, or is empty."""
    if not pem:
        return ""
    if len(pem) > MAX_CERTIFICATE_BYTES:
        return f"must not have more than {MAX_CERTIFICATE_BYTES} bytes"
    blocks = list(pem_blocks(pem))
    for block in blocks:
        if block.kind != CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(block.kind)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        if not block.der:
            return "found CERTIFICATE PEM block containing 0 certificates"
        try:
            x509.load_der_x509_certificate(block.der)
        except (ValueError, x509.InvalidVersion):
            return "x509: malformed certificate"
    return "" if blocks else "must contain at least one CERTIFICATE PEM block"
