"""The names that certificates may have."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509

from kcp_py.apis.certificates.subjects import reserved_name_problem, signing_problem
from tests.apis.certificates.making import new_request

SIGNER = "use of kubernetes.io/kube-apiserver-client signer with"
USAGES = ["client auth", "digital signature", "key encipherment"]
NAMES = "names must have 1 to 1024 bytes of printable characters"


@pytest.mark.parametrize(
    ("names", "groups", "problem"),
    [
        (["alice"], ["dev"], ""),
        (["Björn Ægir"], ["größe:x"], ""),
        (["mysystem:masters"], ["xsystem:masters"], ""),
        (["alice"], ["dev", "system:masters"], f"{SIGNER} system:masters group is not allowed"),
        (["alice"], ["system:kcp:admin"], f'{SIGNER} group "system:kcp:admin" is not allowed'),
        (["alice"], ["system:nodes"], f'{SIGNER} group "system:nodes" is not allowed'),
        (["system:apiserver"], [], f'{SIGNER} user "system:apiserver" is not allowed'),
        (["system:serviceaccount:kube-system:x"], [], f'{SIGNER} user "system:serviceaccount:kube-system:x" is not allowed'),
        (["alice", "system:admin"], [], f'{SIGNER} user "system:admin" is not allowed'),
    ],
)
def test_names_of_the_server_are_refused(names, groups, problem):
    """No certificate has a name that begins with `system:`, wherever it is in the subject."""
    assert reserved_name_problem(new_request(*names, groups=groups)) == problem
    assert signing_problem(new_request(*names, groups=groups), USAGES) == problem


@pytest.mark.parametrize(
    ("names", "groups", "problem"),
    [
        ([], ["dev"], "the subject must have one common name, the name of the user"),
        (["alice", "bob"], [], "the subject must have one common name, the name of the user"),
        (["alice\nsystem:masters"], [], NAMES),
        (["alice"], ["a\0b"], NAMES),
        (["alice\u202e"], [], NAMES),
        (["alice"], ["g" * 1025], NAMES),
        (["alice"], [f"g{number}" for number in range(257)], "the subject must not have more than 256 organizations"),
    ],
)
def test_odd_names_are_not_signed(names, groups, problem):
    """A certificate has one user, and names that can be read."""
    assert signing_problem(new_request(*names, groups=groups), USAGES) == problem


@pytest.mark.parametrize(
    ("usages", "problem"),
    [
        (["client auth"], ""),
        (USAGES, ""),
        (["digital signature"], "missing required usage for client certificate: client auth"),
        (["client auth", "server auth"], "invalid usage for client certificate: server auth"),
        (["any", "client auth"], "invalid usage for client certificate: any"),
        (["cert sign", "client auth"], "invalid usage for client certificate: cert sign"),
    ],
)
def test_usages(usages, problem):
    """Certificates are for clients and nothing else; the texts are upstream's."""
    assert signing_problem(new_request("alice"), usages) == problem


@pytest.mark.parametrize(
    "name",
    [
        x509.UniformResourceIdentifier("kcp://cluster/team-b?uid=0"),
        x509.DNSName("kubernetes.default"),
        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
        x509.RFC822Name("alice@example.org"),
    ],
    ids=["cluster", "host", "address", "mail"],
)
def test_alternative_names_are_refused(name):
    """The cluster is the only alternative name of a certificate, and the server sets it."""
    problem = "subject alternative names are not allowed in certificates of a logical cluster"
    assert signing_problem(new_request("alice", extensions=[x509.SubjectAlternativeName([name])]), USAGES) == problem


def test_other_extensions_are_ignored():
    """They are not copied into the certificate, so that they do no harm."""
    assert signing_problem(new_request("alice", extensions=[x509.BasicConstraints(ca=True, path_length=None)]), USAGES) == ""
