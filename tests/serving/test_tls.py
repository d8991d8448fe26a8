"""Certificates that change while they are served."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import json
import shutil
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from kcp_py.serving.certificates import CertificateError, ensure_certificates
from kcp_py.serving.tls import ReloadingContext

NOW = dt.datetime.now(dt.UTC)


async def who(scope, _receive, send):
    """Answers with the subject of the client's certificate."""
    certificate = scope["state"]["peer_certificate"]
    subject = None if certificate is None else x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
    content = json.dumps(subject).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]})
    await send({"type": "http.response.body", "body": content})


async def ask(port, context, *, name=None):
    """One request on a connection of its own: the answer, and the certificate that the server showed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    try:
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    # In TLS 1.3 the client is done with its handshake before the server looks at its certificate.
    if not answer:
        raise ConnectionError("cut off")
    return json.loads(answer.partition(b"\r\n\r\n")[2]), shown


@pytest.mark.anyio
async def test_the_application_knows_the_host_name_of_the_handshake(certified, client_context, serving):
    """Clients that name an address, which is not a host name, send none."""
    options = dataclasses.replace(certified, external_hostname="kcp.example", cluster_hostnames=True)
    ensure_certificates(options, now=NOW)

    async def app(scope, _receive, send):
        content = json.dumps(scope["state"].get("server_name")).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(content)).encode())]})
        await send({"type": "http.response.body", "body": content})

    async with serving(app, options, tls=ReloadingContext(options).context) as port:
        for name, expected in ((None, None), ("team-a.kcp.example", "team-a.kcp.example"), ("kcp.example", "kcp.example")):
            answer, _ = await ask(port, client_context(options), name=name)
            assert answer == expected


def another_server(options, tmp_path):
    """Certificates of a server that has nothing to do with the first."""
    other = dataclasses.replace(options, root_directory=tmp_path / "other")
    ensure_certificates(other, now=NOW)
    return other


def replace_file(source, target):
    """As tools that renew certificates do it: another file under the same name."""
    shutil.copy(source, f"{target}.new")
    Path(f"{target}.new").replace(target)


@pytest.mark.anyio
async def test_client_certificates_are_optional(certified, client_context, serving):
    """With a certificate of the CA the application gets the client's identity; without one there is none."""
    async with serving(who, certified, tls=ReloadingContext(certified).context) as port:
        assert (await ask(port, client_context(certified, certificate=True)))[0] == "CN=kcp-admin,O=system:masters"
        assert (await ask(port, client_context(certified)))[0] is None


@pytest.mark.anyio
async def test_a_certificate_of_another_authority_is_refused(certified, client_context, serving, tmp_path):
    """A client certificate that no accepted authority has issued ends the connection without an answer."""
    other = another_server(certified, tmp_path)
    context = client_context(other, certificate=True, authority=certified.ca_file)
    async with serving(who, certified, tls=ReloadingContext(certified).context) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(port, context)


@pytest.mark.anyio
async def test_authorities_of_the_operator_are_accepted_beside_ours(certified, client_context, serving, tmp_path):
    """--client-ca-file adds an authority and takes none away."""
    other = another_server(certified, tmp_path)
    options = dataclasses.replace(certified, client_ca_file=other.ca_file)
    async with serving(who, options, tls=ReloadingContext(options).context) as port:
        for issuer in (other, certified):
            context = client_context(issuer, certificate=True, authority=certified.ca_file)
            assert (await ask(port, context))[0] == "CN=kcp-admin,O=system:masters"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("spoken", "least", "served"), [("TLSv1_1", 2, False), ("TLSv1_2", 2, True), ("TLSv1_2", 3, False), ("TLSv1_3", 3, True)]
)
async def test_old_versions_are_refused(certified, client_context, serving, *, spoken, least, served):
    """Nothing older than TLS 1.2, or than what --tls-min-version says, is spoken."""
    options = dataclasses.replace(certified, tls_min_version=f"VersionTLS1{least}")
    context = client_context(options)
    with pytest.warns(DeprecationWarning, match="TLSv1_1") if spoken == "TLSv1_1" else contextlib.nullcontext():
        context.minimum_version = context.maximum_version = ssl.TLSVersion[spoken]
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    async with serving(who, options, tls=ReloadingContext(options).context) as port:
        if served:
            assert (await ask(port, context))[0] is None
        else:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await ask(port, context)


@pytest.mark.anyio
async def test_a_replaced_certificate_is_served_from_the_next_connection_on(certified, client_context, serving):
    """After the files were replaced and looked at, new connections see the new certificate."""
    tls = ReloadingContext(certified)
    context = client_context(certified)
    async with serving(who, certified, tls=tls.context) as port:
        _, before = await ask(port, context)
        assert not tls.reload_if_changed()
        ensure_certificates(dataclasses.replace(certified, external_hostname="renamed.example"), now=NOW)
        assert tls.reload_if_changed()
        answer, after = await ask(port, client_context(certified, certificate=True))
        assert after != before
        assert answer == "CN=kcp-admin,O=system:masters"
        assert not tls.reload_if_changed()


@pytest.mark.anyio
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
async def test_a_removed_authority_is_refused_from_the_next_connection_on(certified, client_context, serving, tmp_path, version):
    """Replacing the operator's bundle removes the trust in CAs that are no longer in it, also for clients that came before."""
    other = another_server(certified, tmp_path)
    bundle = tmp_path / "clients.crt"
    shutil.copy(other.ca_file, bundle)
    options = dataclasses.replace(certified, client_ca_file=bundle)
    tls = ReloadingContext(options)
    context = client_context(other, certificate=True, authority=certified.ca_file)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    async with serving(who, options, tls=tls.context) as port:
        assert (await ask(port, context))[0] == "CN=kcp-admin,O=system:masters"
        replace_file(certified.ca_file, bundle)
        assert tls.reload_if_changed()
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await ask(port, context)
        assert (await ask(port, client_context(certified, certificate=True)))[0] == "CN=kcp-admin,O=system:masters"


@pytest.mark.anyio
async def test_broken_files_leave_the_present_certificate_in_use(certified, client_context, serving):
    """A half-written or wrong file is reported once, and the old certificate stays in use."""
    tls = ReloadingContext(certified)
    async with serving(who, certified, tls=tls.context) as port:
        good = certified.serving_cert_file.read_bytes()
        certified.serving_cert_file.write_bytes(b"junk")
        with pytest.raises(CertificateError, match=r"apiserver\.crt"):
            tls.reload_if_changed()
        assert not tls.reload_if_changed()
        assert (await ask(port, client_context(certified)))[0] is None
        certified.serving_cert_file.write_bytes(good)
        assert tls.reload_if_changed()


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda options: options.serving_cert_file.unlink(), r"apiserver\.crt: No such file or directory"),
        (lambda options: options.serving_key_file.write_text("junk"), r"apiserver\.crt: cannot be served with the key .*apiserver\.key"),
        (lambda options: shutil.copy(options.pki_directory / "admin.key", options.serving_key_file), r"KEY_VALUES_MISMATCH"),
        (lambda options: options.ca_file.write_text("junk"), r"ca\.crt: no PEM certificate authority"),
    ],
    ids=["no certificate", "no key", "foreign key", "no authority"],
)
def test_unusable_files_are_named(certified, break_it, message):
    """What the operator has to look at is in the message."""
    break_it(certified)
    with pytest.raises(CertificateError, match=message):
        ReloadingContext(certified)
