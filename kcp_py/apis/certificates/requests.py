"""Reading a PKCS#10 request as the API sends it: PEM in base64.

Source: kubernetes `pkg/apis/certificates/helpers.go`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

REQUEST: Final = "CERTIFICATE REQUEST"
CERTIFICATE: Final = "CERTIFICATE"

_BEGIN: Final = re.compile(rb"-----BEGIN ([^\n]*)-----[ \t\r]*\Z")
_END: Final = re.compile(rb"-----END ([^\n]*)-----[ \t\r]*\Z")
_NO_REQUEST: Final = "PEM block type must be CERTIFICATE REQUEST"
_NOT_VERIFIED: Final = "x509: cannot verify signature: algorithm unimplemented"


class RequestError(ValueError):
    """The request cannot be used. `str()` is upstream's text where Go's libraries have one."""


class PemBlock(NamedTuple):
    """One block of a PEM text."""

    kind: str
    der: bytes
    has_headers: bool


def pem_blocks(text: bytes) -> Iterator[PemBlock]:
    """The blocks of a PEM text, without the text around them. Blocks that are not base64 are left out (Go's `encoding/pem`)."""
    kind, lines = None, list[bytes]()
    for line in text.split(b"\n"):
        if (begin := _BEGIN.match(line)) is not None:
            kind, lines = begin[1], []
        elif (end := _END.match(line)) is None:
            lines.append(line)
        elif end[1] == kind:
            if (block := _block(kind, lines)) is not None:
                yield block
            kind = None


def _block(kind: bytes, lines: Sequence[bytes]) -> PemBlock | None:
    headers = bool(lines) and b":" in lines[0]
    if headers:
        body = next((index for index, line in enumerate(lines) if not line.strip()), len(lines))
        lines = lines[body:]
    try:
        der = base64.b64decode(b"".join(b"".join(lines).split()), validate=True)
    except binascii.Error:
        return None
    return PemBlock(kind.decode("latin-1"), der, headers)


def decoded(value: object) -> bytes:
    """The bytes of a field of the type `[]byte`. Other texts than base64 were refused when the object was decoded."""
    return base64.b64decode(value) if isinstance(value, str) else b""


def parse_request(pem: bytes) -> x509.CertificateSigningRequest:
    """Read the first block of a PEM text, and check its signature.

    Raises:
        RequestError: the block is not a request, or its signature does not fit its key.
    """
    block = next(pem_blocks(pem), None)
    if block is None or block.kind != REQUEST:
        raise RequestError(_NO_REQUEST)
    try:
        request = x509.load_der_x509_csr(block.der)
        public_key = request.public_key()
        valid = request.is_signature_valid
    except UnsupportedAlgorithm:
        raise RequestError(_NOT_VERIFIED) from None
    except (ValueError, TypeError, x509.InvalidVersion):
        raise RequestError("x509: malformed certificate request") from None
    if not valid:
        raise RequestError(_failure_of(public_key))
    return request


def _failure_of(public_key: object) -> str:
    match public_key:
        case ec.EllipticCurvePublicKey():
            return "x509: ECDSA verification failure"
        case rsa.RSAPublicKey():
            return "crypto/rsa: verification error"
        case ed25519.Ed25519PublicKey():
            return "x509: Ed25519 verification failure"
        case _:
            return _NOT_VERIFIED


def subject_texts(subject: x509.Name, oid: x509.ObjectIdentifier) -> Sequence[str]:
    """The values of an attribute of a subject, in order.

    Raises:
        RequestError: one of them is not a text.
    """
    values = [attribute.value for attribute in subject.get_attributes_for_oid(oid)]
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(values):
        raise RequestError("the subject has a value that is not a text")
    return texts


def organizations(request: x509.CertificateSigningRequest) -> Sequence[str]:
    """The groups that a request asks for.

    Raises:
        RequestError: the subject cannot be read.
    """
    return subject_texts(_subject(request), NameOID.ORGANIZATION_NAME)


def common_names(request: x509.CertificateSigningRequest) -> Sequence[str]:
    """The users that a request asks for, of which there should be one.

    Raises:
        RequestError: the subject cannot be read.
    """
    return subject_texts(_subject(request), NameOID.COMMON_NAME)


def _subject(request: x509.CertificateSigningRequest) -> x509.Name:
    try:
        return request.subject
    except ValueError as error:
        raise RequestError(f"the subject cannot be read: {error}") from None
