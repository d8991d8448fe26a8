"""Credentials that are replaced while they are in use."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kcp_py.client.transport import Transport
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError
from kcp_py.kubeconfig.credentials import READ_SECONDS, Credentials
from kcp_py.options import Options
from kcp_py.serving.certificates import ensure_certificates
from kcp_py.serving.tls import ReloadingContext

pytestmark = pytest.mark.anyio


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def context(folder: Path, server: str = "http://127.0.0.1:1", authority: Path | None = None, **user: Any) -> KubeconfigContext:
    return KubeconfigContext(folder / "config", {"server": server, "certificate-authority": str(authority or "")}, user, "u")


async def token(credentials: Credentials) -> str:
    return dict((await credentials.current()).headers).get("Authorization", "")


async def test_a_token_file_is_read_again_after_a_time(tmp_path: Path) -> None:
    """Not with each request; a file that is gone or empty leaves the last token in use, and is logged."""
    file, clock = tmp_path / "token", Clock()
    file.write_text("one\n")
    credentials = Credentials(context(tmp_path, tokenFile="token"), clock=clock)
    file.write_text("two\n")
    assert await token(credentials) == "Bearer one"
    clock.now = READ_SECONDS
    assert await token(credentials) == "Bearer two"
    for break_it in (lambda: file.write_text("\n"), file.unlink):
        break_it()
        clock.now += READ_SECONDS
        with capture_logs() as logs:
            assert await token(credentials) == await token(credentials) == "Bearer two"
        assert [log["event"] for log in logs] == ["credentials_not_reloaded"]


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    """Unless it was read since the refused request began."""
    file, clock = tmp_path / "token", Clock()
    file.write_text("one")
    credentials = Credentials(context(tmp_path, tokenFile="token"), clock=clock)
    file.write_text("two")
    clock.now = 5
    credentials.refused(4)
    assert await token(credentials) == "Bearer two"
    file.write_text("three")
    credentials.refused(4)
    assert await token(credentials) == "Bearer two"


async def test_the_file_wins_over_the_token(tmp_path: Path) -> None:
    """As soon as it can be read; a kubeconfig with neither a token nor a certificate is anonymous."""
    both = Credentials(context(tmp_path, token="fixed", tokenFile="token"))
    with capture_logs():
        assert await token(both) == "Bearer fixed"
    (tmp_path / "token").write_text("rotated")
    assert await token(Credentials(context(tmp_path, token="fixed", tokenFile="token"))) == "Bearer rotated"
    assert await token(Credentials(context(tmp_path))) == ""
    with pytest.raises(KubeconfigError, match="tokenFile: No such file"):
        Credentials(context(tmp_path, tokenFile="none"))


async def serials(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the serial number of the client's certificate; to /stream never with the rest."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            serial = writer.get_extra_info("ssl_object").getpeercert()["serialNumber"].encode()
            length = 1000 if head.startswith(b"GET /stream") else len(serial) + 2
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"%b"' % (length, serial))
            if length == 1000:
                writer.write(b"\n")
    writer.close()


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """Options with certificates."""
    options = Options(root_directory=tmp_path)
    ensure_certificates(options, now=dt.datetime.now(dt.UTC))
    return options


async def test_a_client_certificate_is_taken_from_its_file_again(tmp_path: Path, options: Options) -> None:
    """New requests have the new one. A request in progress goes on, and a pair of files that do not fit changes nothing."""
    tls: ssl.SSLContext = ReloadingContext(options).context
    server = await asyncio.start_server(serials, "127.0.0.1", 0, ssl=tls)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    certificate, key = options.pki_directory / "admin.crt", options.pki_directory / "admin.key"
    user = {"client-certificate": str(certificate), "client-key": str(key)}
    clock = Clock()
    access = context(tmp_path, url, options.ca_file, **user)
    transport = Transport(access, credentials=Credentials(access, clock=clock))
    async with server, asyncio.timeout(30):
        first = await transport.request("GET", "/")
        async with transport.stream("/stream") as lines:
            assert (await anext(lines)).decode() == f'"{first}"'
            old = key.read_bytes()
            certificate.unlink()
            key.unlink()
            ensure_certificates(options, now=dt.datetime.now(dt.UTC))
            new = key.read_bytes()
            key.write_bytes(old)
            clock.now += READ_SECONDS
            with capture_logs() as logs:
                assert await transport.request("GET", "/") == first
            assert [log["event"] for log in logs] == ["credentials_not_reloaded"]
            key.write_bytes(new)
            clock.now += READ_SECONDS
            second = await transport.request("GET", "/")
            assert second != first
        assert await transport.request("GET", "/") == second
        await transport.aclose()
