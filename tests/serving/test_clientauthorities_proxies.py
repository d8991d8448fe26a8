"""Authorities of front proxies and of users: a certificate counts for what its own authority is accepted for."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import ssl

import pytest

from kcp_py.serving.certificates import CertificateError
from kcp_py.serving.tls import ReloadingContext
from tests.serving.authorities import client_context, new_authority
from tests.serving.test_clientauthorities import PATIENCE, REQUEST, ask, connected, endless

pytestmark = pytest.mark.anyio

OVERLAPPING = (
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names must be specified "
    "to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)


async def roles(scope, _receive, send):
    """Answers with what the certificate of the connection counts for."""
    state = scope["state"]
    found = [role for role, key in (("user", "peer_certificate"), ("proxy", "proxy_certificate")) if state.get(key)]
    content = json.dumps(found).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]})
    await send({"type": "http.response.body", "body": content})


@pytest.fixture
def bundles(certified, tmp_path):
    """Options with a bundle of users' authorities and one of front proxies, and both files."""
    users, proxies = tmp_path / "clients.crt", tmp_path / "proxies.crt"
    options = dataclasses.replace(certified, client_ca_file=users, requestheader_client_ca_file=proxies)
    return options, users, proxies


async def roles_of(port, context):
    """The roles of a client on a connection of its own; None if the handshake fails."""
    try:
        async with connected(port, context) as connection:
            return await ask(connection)
    except (ssl.SSLError, OSError, asyncio.IncompleteReadError):
        return None


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_each_authority_has_its_role(bundles, serving, tmp_path, version):
    """Certificates of users are not those of front proxies, nor the other way round; those of other authorities end the handshake."""
    options, users, proxies = bundles
    user, proxy, both = new_authority("users"), new_authority("proxies"), new_authority("both")
    users.write_bytes(user.pem + both.pem)
    proxies.write_bytes(proxy.pem + both.pem)
    options = dataclasses.replace(options, requestheader_allowed_names=("front-proxy",))
    async with serving(roles, options, tls=ReloadingContext(options).context) as port:
        for authority, expected in ((user, ["user"]), (proxy, ["proxy"]), (both, ["user", "proxy"]), (new_authority(), None)):
            context = client_context(options.ca_file, authority.issue("front-proxy"), tmp_path)
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
            assert await roles_of(port, context) == expected
        context = ssl.create_default_context(cafile=options.ca_file)
        assert await roles_of(port, context) == []
        context.load_cert_chain(options.pki_directory / "admin.crt", options.pki_directory / "admin.key")
        assert await roles_of(port, context) == ["user"]


async def test_names_of_authorities_do_not_matter(bundles, serving, tmp_path):
    """An authority with the name of another one has another key. Without key identifiers OpenSSL may refuse one of them."""
    options, users, proxies = bundles
    user, proxy = new_authority("authority"), new_authority("authority")
    users.write_bytes(user.pem)
    proxies.write_bytes(proxy.pem)
    async with serving(roles, options, tls=ReloadingContext(options).context) as port:
        assert await roles_of(port, client_context(options.ca_file, user.issue("front-proxy"), tmp_path)) in (["user"], None)
        assert await roles_of(port, client_context(options.ca_file, proxy.issue("front-proxy"), tmp_path)) in (["proxy"], None)
        assert await roles_of(port, client_context(options.ca_file, new_authority("authority").issue("front-proxy"), tmp_path)) is None


async def test_certificates_that_a_client_sends_along_give_no_role(bundles, serving, tmp_path):
    """A user that sends the authority of front proxies in its chain stays a user."""
    options, users, proxies = bundles
    user, proxy = new_authority("users"), new_authority("proxies")
    users.write_bytes(user.pem)
    proxies.write_bytes(proxy.pem)
    intermediate = proxy.issue("intermediate", authority=True, usages=())
    async with serving(roles, options, tls=ReloadingContext(options).context) as port:
        for chain in ([proxy], [intermediate, proxy], [intermediate]):
            context = client_context(options.ca_file, user.issue("front-proxy"), tmp_path, *chain)
            assert await roles_of(port, context) in (["user"], None)
        own = client_context(options.ca_file, intermediate.issue("front-proxy"), tmp_path, intermediate)
        assert await roles_of(port, own) == ["proxy"]


async def test_an_authority_of_users_below_one_of_front_proxies(bundles, serving, tmp_path):
    """A chain ends at the first authority that is accepted: users of an intermediate authority are not front proxies of its root."""
    options, users, proxies = bundles
    root = new_authority("root")
    intermediate = root.issue("intermediate", authority=True, usages=())
    users.write_bytes(intermediate.pem)
    proxies.write_bytes(root.pem)
    async with serving(roles, options, tls=ReloadingContext(options).context) as port:
        for chain in ([], [intermediate], [intermediate, root]):
            assert await roles_of(port, client_context(options.ca_file, intermediate.issue("front-proxy"), tmp_path, *chain)) == ["user"]
        assert await roles_of(port, client_context(options.ca_file, root.issue("front-proxy"), tmp_path)) == ["proxy"]


async def test_roles_change_on_open_connections(bundles, serving, tmp_path):
    """A changed bundle counts from the next request on, in both directions."""
    options, users, proxies = bundles
    proxy, other = new_authority("proxies"), new_authority("other")
    users.write_bytes(other.pem)
    proxies.write_bytes(proxy.pem)
    options = dataclasses.replace(options, requestheader_allowed_names=("front-proxy",))
    tls = ReloadingContext(options)
    context = client_context(options.ca_file, proxy.issue("front-proxy"), tmp_path)
    async with serving(roles, options, tls=tls.context) as port, connected(port, context) as connection:
        assert await ask(connection) == ["proxy"]
        for client_bundle, proxy_bundle, expected in (
            (other.pem, new_authority("new").pem, []),
            (other.pem, proxy.pem, ["proxy"]),
            (other.pem + proxy.pem, proxy.pem, ["user", "proxy"]),
            (other.pem + proxy.pem, other.pem, ["user"]),
        ):
            users.write_bytes(client_bundle)
            proxies.write_bytes(proxy_bundle)
            assert tls.reload_if_changed()
            assert await ask(connection) == expected


@pytest.mark.parametrize("stays_user", [False, True])
async def test_a_stream_of_a_removed_front_proxy_ends(bundles, serving, tmp_path, *, stays_user):
    """A watch that a front proxy began is cut off, and does not go on under another identity. Other changes do not cut it off."""
    options, users, proxies = bundles
    proxy, other = new_authority("proxies"), new_authority("other")
    users.write_bytes(other.pem + (proxy.pem if stays_user else b""))
    proxies.write_bytes(proxy.pem)
    options = dataclasses.replace(options, requestheader_allowed_names=("front-proxy",))
    tls = ReloadingContext(options)
    contexts = [client_context(options.ca_file, one.issue("front-proxy"), tmp_path) for one in (proxy, other)]
    async with serving(endless, options, tls=tls.context) as port, contextlib.AsyncExitStack() as stack:
        streams = []
        for context in contexts:
            reader, writer = await stack.enter_async_context(connected(port, context))
            writer.write(REQUEST)
            await asyncio.wait_for(reader.readuntil(b"first"), PATIENCE)
            streams.append(reader)
        users.write_bytes(users.read_bytes() + new_authority("more").pem)
        assert tls.reload_if_changed()
        proxies.write_bytes(new_authority("new").pem)
        assert tls.reload_if_changed()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await asyncio.wait_for(streams[0].read(), PATIENCE)
        assert streams[0].at_eof() or streams[0].exception() is not None
        assert not streams[1].at_eof()


@pytest.mark.parametrize("overlap", ["bundle", "renewed", "own"])
def test_overlapping_bundles_need_allowed_names(bundles, overlap):
    """An authority in both bundles would make every user a front proxy. That of the server, which signs tenants' requests, is one too."""
    options, users, proxies = bundles
    shared = new_authority("shared")
    users.write_bytes(shared.pem)
    renewed = new_authority("shared", key=shared.key)
    proxies.write_bytes({"bundle": shared.pem, "renewed": renewed.pem, "own": options.ca_file.read_bytes()}[overlap])
    with pytest.raises(CertificateError) as caught:
        ReloadingContext(options)
    assert str(caught.value) == OVERLAPPING
    assert ReloadingContext(dataclasses.replace(options, requestheader_allowed_names=("front-proxy",))).context.proxy_authorities


async def test_a_bundle_that_cannot_be_used_is_not_taken(bundles, serving, tmp_path):
    """The settings before it stay in use, whether it is damaged, gone or overlapping."""
    options, users, proxies = bundles
    user, proxy = new_authority("users"), new_authority("proxies")
    users.write_bytes(user.pem)
    proxies.write_bytes(proxy.pem)
    tls = ReloadingContext(options)
    assert proxies in tls.files
    context = client_context(options.ca_file, proxy.issue("front-proxy"), tmp_path)
    async with serving(roles, options, tls=tls.context) as port:
        for content in (b"x", b"", user.pem, None):
            if content is None:
                proxies.unlink()
            else:
                proxies.write_bytes(content)
            with pytest.raises(CertificateError):
                tls.reload_if_changed()
            assert await roles_of(port, context) == ["proxy"]
