"""Client certificates: which the handshake accepts, and what becomes of open connections when an authority is removed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from kcp_py.serving.clientauthorities import authority_of
from kcp_py.serving.tls import ReloadingContext
from tests.serving.authorities import client_context, new_authority

pytestmark = pytest.mark.anyio
REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
PATIENCE = 60


async def who(scope, _receive, send):
    """Answers with the common name of the client, or with `revoked`."""
    certificate = scope["state"]["peer_certificate"]
    name = None if certificate is None else "revoked"
    if certificate:
        name = x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    content = json.dumps(name).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]})
    await send({"type": "http.response.body", "body": content})


async def endless(_scope, receive, send):
    """A stream that has begun and does not end."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


@contextlib.asynccontextmanager
async def connected(port, context):
    """A connection to the server."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def ask(connection):
    """One request on an open connection."""
    reader, writer = connection
    writer.write(REQUEST)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return json.loads(await asyncio.wait_for(reader.readexactly(length), PATIENCE))


@pytest.fixture
def bundle(tmp_path):
    """The operator's bundle of authorities."""
    return tmp_path / "clients.crt"


@pytest.fixture
def operated(certified, bundle):
    """Options with that bundle."""
    return dataclasses.replace(certified, client_ca_file=bundle)


async def accepted(serving, options, context):
    """Whether the server accepts a client certificate."""
    async with serving(who, options, tls=ReloadingContext(options).context) as port:
        try:
            async with connected(port, context) as connection:
                return await ask(connection)
        except (ssl.SSLError, OSError, asyncio.IncompleteReadError):
            return None


@pytest.mark.parametrize(
    ("issued", "expected"),
    [
        pytest.param({}, "CN=alice", id="client auth"),
        pytest.param({"usages": ()}, "CN=alice", id="no extended usage"),
        pytest.param({"usages": (ExtendedKeyUsageOID.SERVER_AUTH,)}, None, id="server auth"),
        pytest.param({"start": -3, "end": -2}, None, id="expired"),
        pytest.param({"start": 1, "end": 2}, None, id="not yet valid"),
    ],
)
async def test_what_a_certificate_must_be(operated, serving, bundle, tmp_path, *, issued, expected):
    """A client certificate is valid now and made for clients, as Go verifies it."""
    authority = new_authority()
    bundle.write_bytes(authority.pem)
    context = client_context(operated.ca_file, authority.issue("alice", **issued), tmp_path)
    assert await accepted(serving, operated, context) == expected


@pytest.mark.parametrize(
    ("sent", "held", "expected"),
    [
        pytest.param(True, "root", "CN=alice", id="the client sends the intermediate one"),
        pytest.param(False, "root", None, id="the intermediate one is missing"),
        pytest.param(False, "intermediate", "CN=alice", id="the bundle has the intermediate one alone"),
    ],
)
async def test_intermediate_authorities(operated, serving, bundle, tmp_path, *, sent, held, expected):
    """A chain ends at any authority of the bundle. The client sends the certificates between."""
    root = new_authority()
    intermediate = root.issue("intermediate", authority=True, usages=())
    bundle.write_bytes({"root": root, "intermediate": intermediate}[held].pem)
    chain = [intermediate] if sent else []
    context = client_context(operated.ca_file, intermediate.issue("alice"), tmp_path, *chain)
    assert await accepted(serving, operated, context) == expected


async def test_a_bundle_has_several_authorities(operated, serving, bundle, tmp_path):
    """Certificates of every authority in the bundle are accepted."""
    authorities = [new_authority("one"), new_authority("two")]
    bundle.write_bytes(b"".join(one.pem for one in authorities))
    async with serving(who, operated, tls=ReloadingContext(operated).context) as port:
        for authority in authorities:
            async with connected(port, client_context(operated.ca_file, authority.issue("alice"), tmp_path)) as connection:
                assert await ask(connection) == "CN=alice"


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_removed_authority_counts_on_open_connections(operated, serving, bundle, tmp_path, version):
    """The next request of a connection has no valid certificate when the authority is gone, and has it again when it is back."""
    removed, kept = new_authority("removed"), new_authority("kept")
    bundle.write_bytes(removed.pem + kept.pem)
    tls = ReloadingContext(operated)
    contexts = [client_context(operated.ca_file, one.issue(name), tmp_path) for one, name in ((removed, "alice"), (kept, "bob"))]
    contexts[0].minimum_version = contexts[0].maximum_version = ssl.TLSVersion[version]
    async with (
        serving(who, operated, tls=tls.context) as port,
        connected(port, contexts[0]) as alice,
        connected(port, contexts[1]) as bob,
    ):
        assert [await ask(alice), await ask(bob)] == ["CN=alice", "CN=bob"]
        bundle.write_bytes(kept.pem)
        assert tls.reload_if_changed()
        assert [await ask(alice), await ask(bob)] == ["revoked", "CN=bob"]
        bundle.write_bytes(kept.pem + removed.pem + removed.pem)
        assert tls.reload_if_changed()
        assert await ask(alice) == "CN=alice"


async def test_an_intermediate_chain_is_revoked_with_its_root(operated, serving, bundle, tmp_path):
    """What counts is the authority at the end of the verified chain."""
    root = new_authority()
    intermediate = root.issue("intermediate", authority=True, usages=())
    bundle.write_bytes(root.pem)
    tls = ReloadingContext(operated)
    context = client_context(operated.ca_file, intermediate.issue("alice"), tmp_path, intermediate)
    async with serving(who, operated, tls=tls.context) as port, connected(port, context) as alice:
        assert await ask(alice) == "CN=alice"
        bundle.write_bytes(new_authority("other").pem)
        assert tls.reload_if_changed()
        assert await ask(alice) == "revoked"


async def test_a_stream_ends_when_its_authority_is_removed(operated, serving, bundle, tmp_path):
    """A watch that has begun is cut off, and does not go on for an hour."""
    removed, kept = new_authority("removed"), new_authority("kept")
    bundle.write_bytes(removed.pem + kept.pem)
    tls = ReloadingContext(operated)
    context = client_context(operated.ca_file, removed.issue("alice"), tmp_path)
    async with serving(endless, operated, tls=tls.context) as port, connected(port, context) as (reader, writer):
        writer.write(REQUEST)
        await asyncio.wait_for(reader.readuntil(b"first"), PATIENCE)
        bundle.write_bytes(kept.pem)
        assert tls.reload_if_changed()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await asyncio.wait_for(reader.read(), PATIENCE)
        assert reader.at_eof() or reader.exception() is not None


def test_a_renewed_authority_is_the_same():
    """Name and key make an authority; serial number and dates do not."""
    before = new_authority()
    assert authority_of(new_authority(key=before.key).certificate) == authority_of(before.certificate)
    assert authority_of(new_authority().certificate) != authority_of(before.certificate)
    assert authority_of(new_authority("other", key=before.key).certificate) != authority_of(before.certificate)
