"""Reading requests for certificates."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apis.certificates.requests import RequestError, common_names, decoded, organizations, parse_request, pem_blocks
from tests.apis.certificates.making import KEY, new_request

PEM = new_request("alice", groups=["dev", "ops"]).public_bytes(Encoding.PEM)
DER = new_request("alice").public_bytes(Encoding.DER)


def pem(der: bytes, kind: str = "CERTIFICATE REQUEST") -> bytes:
    return f"-----BEGIN {kind}-----\n{base64.encodebytes(der).decode()}-----END {kind}-----\n".encode()


@pytest.mark.parametrize(
    "text",
    [PEM, b"comment\n" + PEM + b"more", PEM.replace(b"\n", b"\r\n"), PEM + pem(b"x", "CERTIFICATE")],
    ids=["alone", "comment", "windows", "two"],
)
def test_the_first_block_is_read(text):
    """Text around the request is ignored, and so are further blocks."""
    request = parse_request(text)
    assert list(common_names(request)) == ["alice"]
    assert list(organizations(request)) == ["dev", "ops"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "PEM block type must be CERTIFICATE REQUEST"),
        (b"\0\0\0", "PEM block type must be CERTIFICATE REQUEST"),
        (pem(DER, "CERTIFICATE") + PEM, "PEM block type must be CERTIFICATE REQUEST"),
        (pem(DER, "NEW CERTIFICATE REQUEST"), "PEM block type must be CERTIFICATE REQUEST"),
        (pem(b"\0\0\0"), "x509: malformed certificate request"),
        (pem(DER + b"\0"), "x509: malformed certificate request"),
        (pem(DER.replace(b"\x02\x01\x00", b"\x02\x01\x07", 1)), "x509: malformed certificate request"),
        (pem(DER[:-1] + bytes([DER[-1] ^ 1])), "x509: ECDSA verification failure"),
    ],
    ids=["nothing", "zeros", "certificate", "new", "short", "long", "version", "signature"],
)
def test_faults_have_the_words_of_upstream(text, problem):
    """Other content, and a request with a wrong signature, are refused."""
    with pytest.raises(RequestError, match=f"^{problem}$"):
        parse_request(text)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (rsa.generate_private_key(65537, 2048), "crypto/rsa: verification error"),
        (ed25519.Ed25519PrivateKey.generate(), "x509: Ed25519 verification failure"),
        (ec.generate_private_key(ec.SECP384R1()), "x509: ECDSA verification failure"),
    ],
    ids=["RSA", "Ed25519", "P-384"],
)
def test_signatures_of_every_kind_of_key_are_verified(key, problem):
    """A request whose content was changed after it was signed is refused."""
    der = new_request("alice", key=key).public_bytes(Encoding.DER)
    parse_request(pem(der))
    with pytest.raises(RequestError, match=problem):
        parse_request(pem(der.replace(b"alice", b"malus", 1)))


@given(st.binary(max_size=300))
def test_garbage_is_refused(junk):
    """Other bytes than a request raise this error, and never another one."""
    for text in (junk, pem(junk), PEM[: len(junk)] + junk):
        try:
            parse_request(text)
        except RequestError:
            continue
        assert b"alice" in base64.b64decode(b"".join(PEM.splitlines()[1:-1]))


def test_blocks():
    """Blocks of a text come in order, with whether they have headers; those that do not end or are not base64 are left out."""
    text = pem(b"one", "A") + b"-----BEGIN A-----\n!!!\n-----END A-----\n" + b"-----BEGIN B-----\nQQ==\n" + pem(b"two", "C")
    text += b"-----BEGIN D-----\nProc-Type: 4\n\nQQ==\n-----END D-----\n-----BEGIN E-----\n-----END F-----\n"
    assert [tuple(block) for block in pem_blocks(text)] == [("A", b"one", False), ("C", b"two", False), ("D", b"A", True)]


def test_many_beginnings_take_linear_time():
    """A megabyte of lines that begin a block is read once, and not once for each line."""
    assert list(pem_blocks(b"-----BEGIN X-----\n" * 60_000)) == []


def test_fields_of_bytes():
    """A missing field is empty."""
    assert decoded(None) == b""
    assert decoded(base64.b64encode(PEM).decode()) == PEM
    assert KEY.public_key() == new_request("x").public_key()
