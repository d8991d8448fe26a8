"""Objects of upstream kinds have the names that a real server takes."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.upstream.names import NAME_RULES, name_problems
from kcp_py.apis.upstream.strategy import UpstreamStrategy
from kcp_py.bootstrap.upstream_kinds import upstream_kinds

STRATEGIES = {kind.plural: UpstreamStrategy(kind, {}) for kind in upstream_kinds().values()}


@pytest.mark.parametrize(("plural", "name", "problem"), [
    ("services", "1abc", ""),
    ("services", "a.b", "must not contain dots"),
    ("services", "a" * 64, "must be no more than 63 characters"),
    ("statefulsets", "a.b", "must not contain dots"),
    ("deployments", "a.b", ""),
    ("clustertrustbundles", "example.com:foo:x", ""),
    ("leasecandidates", "A_b.c", ""),
    ("leasecandidates", "a:b", "a valid config key must consist of"),
    ("poddisruptionbudgets", "A:b", ""),
    ("ipaddresses", "192.168.1.2", ""),
    ("ipaddresses", "2001:db8::1", ""),
    ("ipaddresses", "2001:DB8::1", 'must be in canonical form ("2001:db8::1")'),
    ("ipaddresses", "010.1.1.1", "must not have leading 0s"),
    ("ipaddresses", "::ffff:1.2.3.4", "must not be an IPv4-mapped IPv6 address"),
    ("ipaddresses", "fe80::1%eth0", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ("ipaddresses", "1.2.3", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
])  # fmt: skip
def test_names(plural, name, problem):
    """Each kind has its own rule."""
    found = STRATEGIES[plural].validate_name(name)
    assert len(found) == bool(problem)
    assert not found or found[0].startswith(problem)


BUNDLES = ("certificates.k8s.io", "clustertrustbundles")


@pytest.mark.parametrize(("kind", "name", "spec", "problem"), [
    (BUNDLES, "x", {}, ""),
    (BUNDLES, "a:b", {}, 'ClusterTrustBundle without signer name must not have ":" in its name'),
    (BUNDLES, "example.com:foo:x", {"signerName": "example.com/foo"}, ""),
    (BUNDLES, "x", {"signerName": "a.b/c"}, "ClusterTrustBundle for signerName a.b/c must be named with prefix a.b:c:"),
    (("batch", "cronjobs"), "a" * 52, {}, ""),
    (("batch", "cronjobs"), "a" * 53, {}, "must be no more than 52 characters"),
])  # fmt: skip
def test_names_that_depend_on_the_object(kind: tuple[str, str], name: str, spec: dict[str, Any], problem: str):
    """Some names have to say what the object is about."""
    found = [str(error) for error in name_problems(kind, {"metadata": {"name": name}, "spec": spec})]
    assert found == ([f'metadata.name: Invalid value: "{name}": {problem}'] if problem else [])


def test_every_rule_is_of_an_upstream_kind():
    """No rule is written for a kind that is not there."""
    assert {(kind.group, kind.plural) for kind in upstream_kinds().values()} >= NAME_RULES.keys()
