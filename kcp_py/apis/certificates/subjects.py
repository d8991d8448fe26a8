"""Which users and groups the signer of client certificates makes.

Upstream's plugin CertificateSubjectRestriction refuses the group `system:masters` alone. Here every name that begins with `system:` is
refused: these names belong to the server, and certificates are requested and approved by administrators of one logical cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cryptography import x509

from kcp_py.apis.certificates.requests import RequestError, common_names, organizations
from kcp_py.apis.certificates.validation import CLIENT_SIGNER
from kcp_py.golang.quoting import go_quote
from kcp_py.request.user import SYSTEM_MASTERS

_RESERVED: Final = "system:"
MAX_NAME_BYTES: Final = 1024
MAX_USER_BYTES: Final = 64
"""Of a common name (RFC 5280, `ub-common-name`)."""
MAX_GROUPS: Final = 256
_OPTIONAL_USAGES: Final = frozenset({"digital signature", "key encipherment"})
_CLIENT_AUTH: Final = "client auth"


def reserved_name_problem(request: x509.CertificateSigningRequest) -> str:
    """Why a request may not be made, for its names; empty where it may.

    Raises:
        RequestError: the subject cannot be read.
    """
    groups = organizations(request)
    if SYSTEM_MASTERS in groups:
        return f"use of {CLIENT_SIGNER} signer with system:masters group is not allowed"
    for kind, names in (("group", groups), ("user", common_names(request))):
        for name in names:
            if name.startswith(_RESERVED):
                return f"use of {CLIENT_SIGNER} signer with {kind} {go_quote(name[:MAX_NAME_BYTES])} is not allowed"
    return ""


def signing_problem(request: x509.CertificateSigningRequest, usages: Sequence[str]) -> str:
    """Why a request cannot be signed; empty where it can. Checks of usages have upstream's texts (`validAPIServerClientUsages`).

    Args:
        request: whose signature has been verified.
        usages: `spec.usages`.
    """
    for usage in usages:
        if usage not in _OPTIONAL_USAGES and usage != _CLIENT_AUTH:
            return f"invalid usage for client certificate: {usage}"
    if _CLIENT_AUTH not in usages:
        return f"missing required usage for client certificate: {_CLIENT_AUTH}"
    try:
        return reserved_name_problem(request) or _name_problem(common_names(request), organizations(request)) or _extension_problem(request)
    except RequestError as error:
        return str(error)


def _name_problem(names: Sequence[str], groups: Sequence[str]) -> str:
    if len(names) != 1 or not names[0]:
        return "the subject must have one common name, the name of the user"
    if len(groups) > MAX_GROUPS:
        return f"the subject must not have more than {MAX_GROUPS} organizations"
    if len(names[0].encode("utf-8", "replace")) > MAX_USER_BYTES:
        return f"the common name must not have more than {MAX_USER_BYTES} bytes"
    for name in (*names, *groups):
        if not name or not name.isprintable() or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
            return f"names must have 1 to {MAX_NAME_BYTES} bytes of printable characters"
    return ""


def _extension_problem(request: x509.CertificateSigningRequest) -> str:
    """Alternative names are refused. Other extensions are not copied into certificates, as upstream."""
    try:
        request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ""
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return "the extensions cannot be read"
    return "subject alternative names are not allowed in certificates of a logical cluster"
