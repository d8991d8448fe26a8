"""Validation of requests. The texts are those of kube-apiserver 1.37.2 for the same objects."""

from __future__ import annotations

import base64

import pytest

from kcp_py.apis.certificates.validation import USAGES, changed_request_problems, new_request_problems, signer_name_problems
from tests.apis.certificates.making import condition, signing_request

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric "
    "character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUPPORTED = ", ".join(f'"{usage}"' for usage in USAGES)
AT_MOST_ONE = (
    r'status.conditions: Invalid value: "{conditions[{\"type\": \"Approved\"}], conditions[{\"type\": \"Denied\"}]}": '
    'must specify at most one of: `conditions[{"type": "Approved"}]`, `conditions[{"type": "Denied"}]`'
)
FIRST = "status.conditions[0]"
KEY = b"-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        ({}, []),
        ({"usages": list(USAGES), "expirationSeconds": 600, "signerName": "example.com/a.b-c"}, []),
        (
            {"usages": [], "signerName": "", "expirationSeconds": 599},
            [
                "spec.usages: Required value",
                "spec.signerName: Required value",
                "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
            ],
        ),
        (
            {"usages": ["client auth", "client auth", "zz"], "signerName": "foo"},
            [
                f'spec.usages[2]: Unsupported value: "zz": supported values: {SUPPORTED}',
                'spec.usages[1]: Duplicate value: "client auth"',
                "spec.signerName: Invalid value: \"foo\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ],
        ),
        (
            {"request": "AAAA", "signerName": "kubernetes.io/legacy-unknown"},
            [
                'spec.request: Invalid value: "AAAA": PEM block type must be CERTIFICATE REQUEST',
                'spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version',
            ],
        ),
    ],
)
def test_new_requests(spec, problems):
    """A request needs a signature that fits, usages and a signer."""
    assert [str(problem) for problem in new_request_problems(signing_request("one", **spec))] == problems


@pytest.mark.parametrize(
    ("name", "problems"),
    [
        ("example.com/a", []),
        ("Foo.com/a", [f's: Invalid value: "Foo.com": validating label "Foo": {LABEL}']),
        ("com/a", ['s: Invalid value: "com": should be a domain with at least two segments separated by dots']),
        ("a.b/c/d", ["s: Invalid value: \"a.b/c/d\": must be a fully qualified domain and path of the form 'example.com/signer-name'"]),
        (f"{'a.' * 130}b/c", ["s: Too long: may not be more than 253 bytes"]),
    ],
)
def test_names_of_signers(name, problems):
    """A signer is a domain and a path."""
    assert [str(problem) for problem in signer_name_problems(name, "s")] == problems


def test_a_path_of_a_signer_is_made_of_labels():
    """The first faulty part of the path is named."""
    (problem,) = signer_name_problems("foo.com/-.a", "s")
    assert str(problem).startswith('s: Invalid value: "-.a": validating label "-": a lowercase RFC 1123 subdomain must consist of')


def with_status(*conditions, certificate=None):
    """A request with a status."""
    status = {"conditions": list(conditions)} if conditions else {}
    return {**signing_request("one"), "status": {**status, **({"certificate": certificate} if certificate else {})}}


APPROVED, DENIED, FAILED = condition("Approved"), condition("Denied"), condition("Failed")
JUNK = base64.b64encode(b"junk").decode()


@pytest.mark.parametrize(
    ("old", "new", "subresource", "problems"),
    [
        ([], [APPROVED], "approval", []),
        ([], [APPROVED], "status", ['status.conditions: Forbidden: updates may not add a condition of type "Approved"']),
        ([], [DENIED], "", ['status.conditions: Forbidden: updates may not add a condition of type "Denied"']),
        ([], [FAILED, condition("Other", "False")], "status", []),
        ([APPROVED], [{**APPROVED, "reason": "other"}], "approval", []),
        ([], [condition("Approved", "False")], "approval", [f'{FIRST}.status: Unsupported value: "False": supported values: "True"']),
        ([], [APPROVED, DENIED], "approval", [AT_MOST_ONE]),
        ([APPROVED], [APPROVED, DENIED], "approval", [AT_MOST_ONE]),
        ([], [APPROVED, APPROVED], "approval", ['status.conditions[1].type: Duplicate value: "Approved"']),
        ([], [{"type": "", "status": ""}], "approval", [f"{FIRST}.type: Required value", f"{FIRST}.status: Required value"]),
        ([APPROVED], [], "approval", ['status.conditions: Forbidden: updates may not remove a condition of type "Approved"']),
        ([APPROVED, FAILED], [APPROVED], "status", ['status.conditions: Forbidden: updates may not remove a condition of type "Failed"']),
    ],
)  # fmt: skip
def test_conditions(old, new, subresource, problems):
    """Requests are approved or denied once and for ever, through `/approval` alone."""
    found = changed_request_problems(with_status(*new), with_status(*old), subresource)
    assert [str(problem) for problem in found] == problems


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (b"junk", "must contain at least one CERTIFICATE PEM block"),
        (b"-----BEGIN CERTIFICATE-----\n" * 5000, "must not have more than 131072 bytes"),
        (KEY, 'only CERTIFICATE PEM blocks are allowed, found "EC PRIVATE KEY"'),
        (b"-----BEGIN CERTIFICATE-----\na: b\n\nAAAA\n-----END CERTIFICATE-----\n", "no PEM block headers are permitted"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "x509: malformed certificate"),
        (b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n", "found CERTIFICATE PEM block containing 0 certificates"),
    ],
)  # fmt: skip
def test_certificates(pem, problem):
    """The certificate of a request is PEM with nothing but certificates."""
    found = changed_request_problems(with_status(certificate=base64.b64encode(pem).decode()), with_status(), "status")
    assert [str(one) for one in found] == [f'status.certificate: Invalid value: "<certificate data>": {problem}']


def test_a_certificate_is_set_once():
    """Through `/status`, and never changed."""
    forbidden = "status.certificate: Forbidden: updates may not"
    found = changed_request_problems(with_status(), with_status(certificate=JUNK), "status")
    assert [str(one) for one in found] == [f"{forbidden} modify existing certificate content"]
    found = changed_request_problems(with_status(), with_status(certificate=JUNK), "approval")
    assert [str(one) for one in found] == [f"{forbidden} set certificate content"]
