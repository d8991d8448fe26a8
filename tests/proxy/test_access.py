"""In whose name requests are made."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kcp_py.apimachinery.errors import StatusError
from kcp_py.proxy.access import Access, Caller, Callers
from kcp_py.proxy.reads import parse_read
from kcp_py.proxy.upstream import Answer, UnreachableError
from tests.serving.authorities import new_authority

BEARER = (b"authorization", b"Bearer abc")
AS_ADMIN = (b"impersonate-user", b"admin")
BOB = new_authority().issue("bob", "dev", "ops").certificate.public_bytes(Encoding.DER)


def test_certificates_name_users() -> None:
    """Where they are accepted: with a token the token counts, and a user with a certificate impersonates no other one."""
    callers = Callers(share_credentials=False, accept_certificates=True)
    named = callers.of([(b"host", b"proxy")], BOB)
    assert named == Caller(True, ((b"impersonate-user", b"bob"), (b"impersonate-group", b"dev"), (b"impersonate-group", b"ops")))
    assert callers.of([BEARER, AS_ADMIN], BOB) == Caller(False, (BEARER, AS_ADMIN))
    with pytest.raises(StatusError, match="cannot impersonate"):
        callers.of([AS_ADMIN], BOB)
    with pytest.raises(StatusError):
        callers.of([], b"no certificate")
    # A certificate whose authority is not accepted any more.
    assert callers.of([], b"") == Caller(False, ())
    ignored = Callers(share_credentials=False, accept_certificates=False)
    assert ignored.of([], BOB) == Caller(False, ())


def test_ambiguous_credentials_are_refused() -> None:
    """Two tokens, and a token that the next server does not get."""
    callers = Callers(share_credentials=True, accept_certificates=False)
    for headers, code in (([BEARER, BEARER], 401), ([BEARER, (b"connection", b"close, Authorization")], 400)):
        with pytest.raises(StatusError) as refused:
            callers.of(headers, None)
        assert refused.value.code == code


class Server:
    """Answers reviews; counts them."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: Answer | None = Answer(201, (), b'{"status":{"allowed":true}}')

    async def fetch(self, *arguments: object, **options: object) -> Answer:
        del arguments, options
        self.asked += 1
        if self.answer is None:
            raise UnreachableError("gone")
        return self.answer


@pytest.mark.anyio
async def test_decisions_are_kept_for_a_time() -> None:
    """For each caller, verb and object; without the server a permission counts longer, and a refusal does not become one."""
    now = 0.0
    server = Server()
    access = Access(server, kept_seconds=10, offline_seconds=100, clock=lambda: now)  # type: ignore[arg-type]
    bob, carol = Caller(False, (BEARER,)), Caller(False, ((b"authorization", b"Bearer def"),))
    lists, gets = (parse_read(path, "", "") for path in ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/one"))
    assert lists is not None
    assert gets is not None
    for _ in range(3):
        assert await access.allows(bob, lists)
    assert server.asked == 1
    server.answer = Answer(201, (), b'{"status":{"allowed":true,"denied":true}}')
    assert not await access.allows(carol, lists)
    assert not await access.allows(bob, gets)
    assert server.asked == 3
    now = 50.0
    server.answer = None
    assert await access.allows(bob, lists)
    for caller, read in ((carol, lists), (bob, gets)):
        with pytest.raises(UnreachableError):
            await access.allows(caller, read)
    now = 101.0
    with pytest.raises(UnreachableError):
        await access.allows(bob, lists)
    server.answer = Answer(401, (), b"")
    assert not await access.allows(bob, lists)
