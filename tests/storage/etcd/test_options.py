"""Reading endpoints."""

from __future__ import annotations

import pytest

from kcp_py.storage.contract import StorageError
from kcp_py.storage.etcd.options import Endpoint, EtcdOptions, parse_endpoint


@pytest.mark.parametrize(
    ("text", "secure", "endpoint"),
    [
        ("http://127.0.0.1:2379", True, Endpoint("dns:///127.0.0.1:2379", secure=False)),
        ("https://etcd.example:2380/", False, Endpoint("dns:///etcd.example:2380", secure=True)),
        ("https://etcd.example", False, Endpoint("dns:///etcd.example:2379", secure=True)),
        ("http://[::1]:5", False, Endpoint("dns:///[::1]:5", secure=False)),
        ("etcd.example:7", True, Endpoint("dns:///etcd.example:7", secure=True)),
        ("etcd.example:7", False, Endpoint("dns:///etcd.example:7", secure=False)),
        ("unix:///run/etcd.sock", False, Endpoint("unix:/run/etcd.sock", secure=False)),
        ("unixs:///run/etcd.sock", False, Endpoint("unix:/run/etcd.sock", secure=True)),
    ],
)
def test_endpoints(text, secure, endpoint):
    """Schemes, ports, IPv6 and sockets become gRPC targets."""
    assert parse_endpoint(text, secure=secure) == endpoint


@pytest.mark.parametrize(
    "text", ["ftp://a:1", "http://", "http://a:b", "http://a/path", "http://u:p@a:1", "", "http://[::1", "http://a:99999"]
)
def test_malformed_endpoints(text):
    """An invalid endpoint is refused with a storage error."""
    with pytest.raises(StorageError):
        parse_endpoint(text, secure=False)


def test_no_endpoint():
    """A store without an address is refused."""
    with pytest.raises(StorageError):
        EtcdOptions(()).parsed_endpoints()


def test_password_is_not_shown():
    """Printing the options does not print the password."""
    assert "secret" not in repr(EtcdOptions(password="secret"))
