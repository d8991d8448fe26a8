"""The PodSecurityConfiguration of an operator."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.admission.configuration import Document
from kcp_py.admission.podsecurity.configuration import PodSecurityConfiguration, parse_configuration
from kcp_py.admission.podsecurity.levels import Policy, Standard
from kcp_py.options import OptionsError

HEAD = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}


def parse(**fields: Any) -> PodSecurityConfiguration:
    return parse_configuration(Document("f", {**HEAD, **fields}))


def test_without_a_configuration_nothing_is_forbidden_or_exempt() -> None:
    """Nor with an empty one of any version."""
    empty = PodSecurityConfiguration(Policy(), frozenset(), frozenset(), frozenset())
    assert parse_configuration(None) == parse() == parse(defaults=None, exemptions=None) == empty
    assert parse(apiVersion="pod-security.admission.config.k8s.io/v1beta1") == empty


def test_defaults_and_exemptions() -> None:
    """Levels and versions that are not given are privileged and latest."""
    found = parse(
        defaults={"enforce": "baseline", "enforce-version": "v1.20", "warn": "restricted"},
        exemptions={"usernames": ["u"], "namespaces": ["n"], "runtimeClasses": ["r.c"]},
    )
    assert found.defaults == Policy(Standard("baseline", 20), Standard(), Standard("restricted"))
    assert found[1:] == (frozenset({"u"}), frozenset({"n"}), frozenset({"r.c"}))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"defaults": {"enforce": "nope", "enforce-version": "1.20", "warn-version": "v2.1"}},
            (
                "[enforce: must be one of privileged, baseline, restricted, "
                'enforce-version: must be "latest" or "v1.x", warn-version: must be "latest" or "v1.x"]'
            ),
        ),
        (
            {"exemptions": {"usernames": ["", "a", "a"]}},
            '[exemptions.usernames[0]: Invalid value: "": username must not be empty, exemptions.usernames[2]: Duplicate value: "a"]',
        ),
        ({"exemptions": {"runtimeClasses": ["k", "k"]}}, 'exemptions.runtimeClasses[1]: Duplicate value: "k"'),
        ({"defaultz": {}}, 'strict decoding error: unknown field "defaultz"'),
        ({"kind": "Other"}, 'no kind "Other" is registered for version "pod-security.admission.config.k8s.io/v1"'),
        ({"exemptions": {"usernames": "a"}}, "exemptions.usernames is not a list"),
    ],
)
def test_a_faulty_configuration_is_refused(fields: dict[str, Any], problem: str) -> None:
    """All problems are reported, in upstream's words."""
    with pytest.raises(OptionsError) as refused:
        parse(**fields)
    assert str(refused.value) == f"--admission-control-config-file: f: {problem}"


def test_names_of_exempt_namespaces_and_classes_are_checked() -> None:
    """With the rules of their kinds."""
    with pytest.raises(OptionsError) as refused:
        parse(exemptions={"namespaces": ["A_b"], "runtimeClasses": ["-"]})
    assert 'exemptions.namespaces[0]: Invalid value: "A_b": a lowercase RFC 1123 label must consist' in str(refused.value)
    assert 'exemptions.runtimeClasses[0]: Invalid value: "-": a lowercase RFC 1123 subdomain must consist' in str(refused.value)
