"""Kubeconfigs as clients write them, and servers that do not answer as hoped."""

from __future__ import annotations

import base64
import dataclasses
import socket

import pytest
import yaml

from kcp_py import __version__
from kcp_py.cli.credentials import admin_kubeconfig
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import RemoteServer, load_context, user_agent


@pytest.fixture
def kubeconfig(certified, tmp_path):
    """Writes the administrator's kubeconfig, changed by a function, and returns its path."""

    def write(change=None, port=1):
        document = admin_kubeconfig(certified, token="t", port=port)
        if change is not None:
            change(document)
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def test_credentials_from_files_are_read_and_embedded(kubeconfig, certified, tmp_path):
    """Files named relative to the kubeconfig are found, and embedded in kubeconfigs for another place."""
    (tmp_path / "token").write_text("secret\n")

    def change(document):
        document["clusters"][0]["cluster"] = {"server": "https://h:1/clusters/root", "certificate-authority": "root/pki/ca.crt"}
        document["users"][0]["user"] = {
            "client-certificate": "root/pki/admin.crt",
            "client-key": "root/pki/admin.key",
            "tokenFile": "token",
        }

    access = load_context(kubeconfig(change), None)
    assert access.base_url == "https://h:1"
    cluster, user = access.embedded()
    assert base64.b64decode(cluster["certificate-authority-data"]) == certified.ca_file.read_bytes()
    assert set(user) == {"client-certificate-data", "client-key-data", "token"}
    assert user["token"] == "secret"
    RemoteServer(access)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda document: document.update({"current-context": "gone"}), "no usable kubeconfig: context 'gone' is not in it"),
        (lambda document: document.pop("users"), "no usable kubeconfig: users is missing"),
        (lambda document: document.update(users=None), "no usable kubeconfig: it does not have the form of a kubeconfig"),
        (lambda document: document["clusters"][0].update(cluster=None), "it does not have the form of a kubeconfig"),
        (lambda document: document["users"][0].update(user="admin"), "it does not have the form of a kubeconfig"),
        (lambda document: document["users"][0]["user"].update(token="", tokenFile="binary"), "tokenFile: not UTF-8 text"),
        (lambda document: document["users"][0]["user"].update(token="", tokenFile=5), "tokenFile: No such file or directory"),
        (lambda document: document["users"][0]["user"].update(token="", tokenFile="a\0b"), "tokenFile: "),
        (lambda document: document["contexts"][0]["context"].update(cluster="gone"), "cluster 'gone' is not in it"),
        (lambda document: document["clusters"][0]["cluster"].pop("server"), "no usable kubeconfig: server"),
        (lambda document: document["users"][0]["user"].update({"client-certificate-data": "%"}), "client-certificate: "),
        (lambda document: document["clusters"][0]["cluster"].update({"certificate-authority-data": "anVuaw=="}), "certificate-authority: "),
    ],
    ids=[
        "context",
        "no users",
        "null users",
        "null cluster",
        "text as user",
        "binary token file",
        "number as token file",
        "null byte in token file",
        "cluster",
        "no server",
        "base64",
        "authority",
    ],
)
def test_unusable_kubeconfigs_are_named(kubeconfig, change, message, tmp_path):
    """The line begins with the file and names the missing part."""
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    path = kubeconfig(change)
    with pytest.raises(CommandError) as caught:
        RemoteServer(load_context(path, None))
    assert caught.value.message.startswith(f"{path}: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("exec", {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin"}, "exec: credential plugins are not supported"),
        ("auth-provider", {"name": "oidc"}, "auth-provider: authentication providers are not supported"),
        ("username", "jane", "username: the server knows no passwords"),
    ],
    ids=["exec", "auth-provider", "username"],
)
def test_credentials_that_are_not_supported_are_named(kubeconfig, key, value, message):
    """Where they are the only ones: no command talks to the server as anonymous in their stead."""
    path = kubeconfig(lambda document: document["users"][0].update(user={key: value}))
    with pytest.raises(CommandError) as caught:
        RemoteServer(load_context(path, None))
    assert message in caught.value.message
    assert caught.value.message.endswith("use a kubeconfig with token, tokenFile or a client certificate")
    both = kubeconfig(lambda document: document["users"][0].update(user={key: value, "token": "t"}))
    RemoteServer(load_context(both, None))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no usable kubeconfig: it does not have the form of a kubeconfig"),
        (b"[]", "no usable kubeconfig: it does not have the form of a kubeconfig"),
        (b"a: [", "while parsing"),
        (b"\x00", "not allowed"),
        (b"\xff\xfe", "not UTF-8 text"),
    ],
    ids=["empty", "list", "broken", "control character", "binary"],
)
def test_other_files_are_named(tmp_path, content, message):
    """A file that is not a kubeconfig is reported, too, with the name of the file."""
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(CommandError, match=f"file: .*{message}"):
        load_context(str(tmp_path / "file"), None)


def test_an_absent_server_is_one_line(kubeconfig):
    """The question that helps is in it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        path = kubeconfig(port=unused.getsockname()[1])
        with pytest.raises(CommandError, match=r"^https://127\.0\.0\.1:\d+: Connection refused; is the server running\?$"):
            RemoteServer(load_context(path, None)).request("GET", "/")


@pytest.mark.anyio
async def test_another_server_is_not_trusted(kubeconfig, certified, serving, tmp_path):
    """A server of another authority gets no credentials."""
    import asyncio
    import datetime as dt

    from kcp_py.serving.certificates import ensure_certificates
    from kcp_py.serving.tls import ReloadingContext

    async def app(_scope, _receive, _send):
        """Is never asked."""

    other = dataclasses.replace(certified, root_directory=tmp_path / "other")
    ensure_certificates(other, now=dt.datetime.now(dt.UTC))
    async with serving(app, other, tls=ReloadingContext(other).context) as port:
        server = RemoteServer(load_context(kubeconfig(port=port), None))
        with pytest.raises(CommandError, match=r"is .* this server's"):
            await asyncio.to_thread(server.request, "GET", "/")


def test_user_agent(monkeypatch):
    """Program, version, system and machine, the latter two in Go's words."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("platform.system", lambda: "Linux")
    assert user_agent() == f"kcp-py/{__version__} (linux/amd64)"
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert user_agent() == f"kcp-py/{__version__} (darwin/riscv64)"


URLS = ["https://h:port", "https://h:99999", "https://h:0", "https://", "ftp://h", "", "3", "https://[::1", "https://a b"]


@pytest.mark.parametrize("url", URLS)
def test_addresses_that_are_none(kubeconfig, url):
    """A server's address that no request can be sent to is one line that names the file."""

    def change(document):
        document["clusters"][0]["cluster"]["server"] = url

    path = kubeconfig(change)
    with pytest.raises(CommandError) as caught:
        load_context(path, None)
    assert str(caught.value.message).startswith(f"{path}: no usable kubeconfig: ")


@pytest.mark.parametrize("token", ["a\nb", "a b", "\u00fc", "\u65e5"])
def test_tokens_that_no_header_can_hold(kubeconfig, token):
    """They are refused with the name of the file, and not shown."""

    def change(document):
        document["users"][0]["user"] = {"token": token}

    access = load_context(kubeconfig(change), None)
    with pytest.raises(CommandError) as caught:
        RemoteServer(access)
    assert caught.value.message == f"{access.file}: token: it holds characters that no bearer token has"
