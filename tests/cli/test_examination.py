"""What doctor finds."""

from __future__ import annotations

import dataclasses
import datetime as dt
import shutil
import socket

import pytest

from kcp_py.cli import examination as look
from kcp_py.cli.credentials import ensure_token_file, write_kubeconfig
from kcp_py.cli.examination import Finding, Severity
from kcp_py.cli.root import run
from kcp_py.serving.certificates import LEAF_LIFETIME, ensure_certificates
from kcp_py.serving.tls import ReloadingContext
from tests.ports import reserve_port


def wrong(findings):
    return [finding.text for finding in findings if finding.severity is Severity.WRONG]


def test_versions():
    """Every library that the server needs is installed."""
    findings = list(look.versions())
    assert wrong(findings) == []
    assert any("OpenSSL" in finding.text for finding in findings)


def test_a_fresh_directory_is_fine(options):
    """Nothing is there yet, and that is not wrong."""
    for examine in (look.files, look.certificates, look.kubeconfig, look.store):
        assert wrong(examine(options)) == []
    assert not options.root_directory.exists()


def test_files_open_to_others_are_wrong(certified):
    """A key that others can read is reported with the command that corrects it."""
    ensure_token_file(certified)
    assert wrong(look.files(certified)) == []
    certified.admin_token_file.chmod(0o640)
    assert wrong(look.files(certified)) == [
        f"{certified.admin_token_file} is open to others (mode 0640); chmod go= {certified.admin_token_file}"
    ]


def test_a_root_directory_that_is_none(options):
    """A file in its place is wrong."""
    options.root_directory.write_text("")
    assert wrong(look.files(options)) == [f"{options.root_directory} is not a directory"]


@pytest.mark.parametrize(
    ("age", "severity"), [(dt.timedelta(), Severity.OK), (LEAF_LIFETIME * 0.95, Severity.NOTE), (LEAF_LIFETIME * 1.1, Severity.WRONG)]
)
def test_certificates_by_age(options, age, severity):
    """In time is fine, near the end is noted because the server renews it, expired is wrong."""
    ensure_certificates(options, now=dt.datetime.now(dt.UTC) - age)
    found = [finding for finding in look.certificates(options) if "apiserver.crt (CN" in finding.text]
    assert [finding.severity for finding in found] == [severity]


def test_a_missing_name_is_noted_where_the_server_mends_it(certified):
    """Own certificates are issued again at the next start; a given one lacks the name until its owner acts."""
    renamed = dataclasses.replace(certified, external_hostname="kcp.example")
    assert wrong(look.certificates(renamed)) == []
    assert any("lacks kcp.example; kcp-py start issues it again" in finding.text for finding in look.certificates(renamed))
    given = dataclasses.replace(renamed, tls_cert_file=certified.serving_cert_file, tls_private_key_file=certified.serving_key_file)
    assert wrong(look.certificates(given)) == [f"{certified.serving_cert_file} lacks kcp.example"]


def test_a_foreign_key_is_wrong(certified):
    """Certificate and key must be a pair."""
    shutil.copy(certified.pki_directory / "admin.key", certified.serving_key_file)
    assert any("cannot be used with" in text for text in wrong(look.certificates(certified)))


def test_a_kubeconfig_for_another_address(certified):
    """After the host name was changed the kubeconfig is wrong until the next start."""
    ensure_token_file(certified)
    write_kubeconfig(certified, port=6443)
    assert wrong(look.kubeconfig(certified)) == []
    assert wrong(look.kubeconfig(dataclasses.replace(certified, external_hostname="kcp.example")))
    certified.kubeconfig_file.write_text("junk")
    assert wrong(look.kubeconfig(certified))


def test_a_database_that_is_none(certified):
    """The integrity check of the store is asked, and its lines are shown."""
    certified.database_file.write_bytes(b"junk" * 1000)
    assert wrong(look.store(certified))


@pytest.mark.anyio
async def test_the_port(certified, serving):
    """Free, or a ready server of this directory, or something else."""
    import asyncio

    async def app(scope, _receive, send):
        if scope["type"] != "http":
            return
        status = 200 if scope["path"] == "/readyz" else 404
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with serving(app, certified, tls=ReloadingContext(certified).context) as port:
        options = dataclasses.replace(certified, secure_port=port)
        (finding,) = await asyncio.to_thread(lambda: list(look.port(options)))
    assert finding == (Severity.OK, f"127.0.0.1 port {port}: a server is running and ready")
    free = reserve_port()
    (finding,) = look.port(dataclasses.replace(certified, secure_port=free))
    assert finding == (Severity.OK, f"127.0.0.1 port {free} is free")


def test_a_port_of_something_else(certified, monkeypatch):
    """What listens there and does not speak TLS is wrong."""
    monkeypatch.setattr(look, "PROBE_TIMEOUT", 0.2)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        (text,) = wrong(look.port(dataclasses.replace(certified, secure_port=other.getsockname()[1])))
    assert "is taken by something that is not a server of" in text


def test_what_may_not_be_looked_at_is_wrong():
    """A directory of another user ends its area with a finding, not the program."""

    def examine():
        yield Finding(Severity.OK, "seen")
        raise PermissionError(13, "Permission denied", "/srv/kcp/pki")

    assert list(look.guarded(examine)) == [Finding(Severity.OK, "seen"), Finding(Severity.WRONG, "/srv/kcp/pki: Permission denied")]


def test_the_exit_code_tells(certified, capsys):
    """doctor ends with 0 where nothing is wrong and with 1 where something is; each line has severity, area and text."""
    arguments = ["doctor", "--root-directory", str(certified.root_directory), "--secure-port", str(reserve_port())]
    assert run(arguments) == 0
    assert "ok     certificates" in capsys.readouterr().out
    certified.serving_key_file.chmod(0o644)
    assert run(arguments) == 1
    assert "wrong  files" in capsys.readouterr().out
