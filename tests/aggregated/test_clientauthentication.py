"""How the other API server says that its requests can be known."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from kcp_py.aggregated.clientauthentication import ClientAuthentication, PublishedError, keyless_authority, parse_published
from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.authenticator import Credentials
from kcp_py.logicalcluster import ROOT
from kcp_py.options import Options
from tests.aggregated.conftest import published
from tests.serving.authorities import new_authority

PROXIES, USERS = new_authority("proxies"), new_authority("users")


def test_a_configmap_is_read() -> None:
    """Names of headers are compared in lower case."""
    found = parse_published(published(PROXIES, USERS, "one", "two"))
    assert (found.client_ca, found.proxy_ca, found.allowed_names) == (USERS.pem, PROXIES.pem, ("one", "two"))
    assert found.headers.users == (b"x-remote-user",)
    assert found.headers.extra_prefixes == (b"x-remote-extra-",)


def test_older_servers_publish_no_uid_headers() -> None:
    """The header of newer ones is read, as upstream does."""
    document = published(PROXIES, USERS)
    del document["data"]["requestheader-uid-headers"]
    assert parse_published(document).headers.uids == (b"x-remote-uid",)


@pytest.mark.parametrize(
    "data",
    [
        {"requestheader-allowed-names": "one"},
        {"requestheader-username-headers": '{"a": 1}'},
        {"requestheader-group-headers": "[1]"},
        {"client-ca-file": "no certificate"},
        {"requestheader-client-ca-file": 7},
    ],
    ids=["no JSON", "an object", "numbers", "no PEM", "no text"],
)
def test_other_values_are_refused(data: dict[str, Any]) -> None:
    """As a whole."""
    with pytest.raises(PublishedError):
        parse_published({"data": data})


async def accepted(authentication: ClientAuthentication, *names: str) -> list[str]:
    """The names of front proxies whose headers count."""
    found = []
    for name in names:
        der = PROXIES.issue(name).certificate.public_bytes(Encoding.DER)
        with suppress(StatusError):
            user = await authentication.authenticate(Credentials({b"x-remote-user": b"bob"}, None, ROOT, "/", der))
            assert user is not None
            found.append(name)
    return found


@pytest.mark.anyio
async def test_files_follow_the_configmap(tmp_path: Path) -> None:
    """They have an authority without a key before the first one and after the last one; an unreadable one changes nothing."""
    client, proxy = tmp_path / "pki/client.crt", tmp_path / "pki/proxy.crt"
    authentication = ClientAuthentication(Options(), client_ca=client, proxy_ca=proxy)
    authentication.prepare_files()
    keyless = proxy.read_bytes()
    assert stat.S_IMODE(proxy.stat().st_mode) == 0o600
    authentication.publish({})
    assert proxy.read_bytes() == keyless
    authentication.publish(published(PROXIES, USERS, "front"))
    assert (client.read_bytes(), proxy.read_bytes()) == (USERS.pem, PROXIES.pem)
    assert await accepted(authentication, "front", "other") == ["front"]
    authentication.publish({"data": {"requestheader-allowed-names": "no JSON"}})
    assert proxy.read_bytes() == PROXIES.pem
    assert await accepted(authentication, "front", "other") == ["front"]
    authentication.publish(published(PROXIES, USERS))
    assert await accepted(authentication, "front", "other") == ["front", "other"]
    authentication.publish(None)
    assert PROXIES.pem not in (client.read_bytes(), proxy.read_bytes())
    # TLS still takes the authority of before for a moment.
    assert await accepted(authentication, "front", "other") == []
    assert await authentication.authenticate(Credentials({b"x-remote-user": b"bob"}, None, ROOT, "/")) is None


@pytest.mark.anyio
async def test_files_of_the_program_are_left_alone() -> None:
    """With a given authority of front proxies, the names of the options count, too."""
    options = Options(requestheader_allowed_names=("mine",))
    authentication = ClientAuthentication(options, client_ca=None, proxy_ca=None)
    authentication.prepare_files()
    authentication.publish(published(PROXIES, USERS, "front"))
    authentication.publish(None)
    assert await accepted(authentication, "front", "mine") == ["mine"]


def test_the_keyless_authority_is_another_each_time() -> None:
    """Its key is gone."""
    first, second = (x509.load_pem_x509_certificate(keyless_authority()) for _ in range(2))
    assert first.public_key() != second.public_key()
