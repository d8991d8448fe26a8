"""What follows from the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kcp_py.options import Options


@pytest.mark.parametrize(
    ("options", "url"),
    [
        pytest.param(Options(), "https://127.0.0.1:6443", id="default"),
        pytest.param(Options(bind_address="0.0.0.0"), "https://127.0.0.1:6443", id="all of IPv4"),
        pytest.param(Options(bind_address="::"), "https://[::1]:6443", id="all interfaces"),
        pytest.param(Options(bind_address="10.0.0.7"), "https://10.0.0.7:6443", id="one address"),
        pytest.param(Options(bind_address="0.0.0.0", external_hostname="kcp.example"), "https://kcp.example:6443", id="external name"),
        pytest.param(Options(external_hostname="fd00::1"), "https://[fd00::1]:6443", id="external IPv6"),
        pytest.param(Options(plain_http=True), "http://127.0.0.1:6443", id="plain"),
    ],
)
def test_the_url_for_clients(options, url):
    """Clients are told the external name, else an address they can connect to."""
    assert options.external_url(6443) == url


def test_files_are_below_the_root_directory_unless_told_otherwise():
    """Each file has a place in the root directory, which its own setting overrides."""
    options = Options(root_directory=Path("r"))
    assert options.database_file == Path("r/kcp.db")
    assert options.kubeconfig_file == Path("r/admin.kubeconfig")
    assert options.serving_cert_file == Path("r/pki/apiserver.crt")
    assert options.client_ca_files == (Path("r/pki/ca.crt"),)
    assert options.token_auth_files == (Path("r/admin-tokens.csv"),)
    given = Options(
        storage_path=Path("d"),
        kubeconfig_path=Path("k"),
        tls_cert_file=Path("c"),
        tls_private_key_file=Path("p"),
        client_ca_file=Path("a"),
        token_auth_file=Path("t"),
    )
    assert (given.database_file, given.kubeconfig_file) == (Path("d"), Path("k"))
    assert (given.serving_cert_file, given.serving_key_file) == (Path("c"), Path("p"))
    assert given.client_ca_files[1:] == (Path("a"),)
    assert given.token_auth_files[1:] == (Path("t"),)


@pytest.mark.parametrize("name", ["batteries", "disable_admission_plugins", "etcd_servers"])
def test_a_text_is_no_sequence_of_texts(name):
    """Each of its letters would be one."""
    with pytest.raises(TypeError, match=rf"{name} is a sequence of texts, and not a text: {name}=\['crds'\]"):
        Options(**cast("Any", {name: "crds"}))
