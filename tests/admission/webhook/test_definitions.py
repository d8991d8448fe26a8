"""Webhooks as stored configurations define them."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.admission.webhook.definitions import parse_configuration
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.egress import Service

RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
WEBHOOK: dict[str, Any] = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://example.com"},
    "rules": [RULE],
    "sideEffects": "Some",
    "admissionReviewVersions": ["v1"],
    "timeoutSeconds": 3,
    "failurePolicy": "Ignore",
    "reinvocationPolicy": "IfNeeded",
}


def configuration(*webhooks: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "webhooks": list(webhooks)}


def test_fields() -> None:
    """A webhook is what its fields say; webhooks without rules are left out, and names may repeat in old objects."""
    first, second = parse_configuration(configuration(WEBHOOK, {**WEBHOOK, "rules": []}, WEBHOOK))
    assert (first.identity, second.identity) == ("c/a.b.c/0", "c/a.b.c/2")
    assert first.endpoint.url == "https://example.com/"
    assert (first.timeout, first.ignores_failures, first.allows_dry_run, first.is_reinvoked) == (3, True, False, True)
    assert first.matching.may_select(GroupResource("", "configmaps"))
    assert not first.matching.may_select(GroupResource("", "secrets"))


def test_services() -> None:
    """A service has its default port and the path of the configuration."""
    client = {"service": {"namespace": "n", "name": "s", "path": "/x y"}}
    (webhook,) = parse_configuration(configuration({**WEBHOOK, "clientConfig": client}))
    assert webhook.endpoint.service == Service("n", "s", 443)
    assert webhook.endpoint.url == "https://s.n.svc:443/x%20y"


def test_equal_configurations_are_shared() -> None:
    """Clusters with equal configurations have one value."""
    assert parse_configuration(configuration(WEBHOOK)) is parse_configuration(configuration(dict(WEBHOOK)))
    assert parse_configuration(configuration(WEBHOOK)) is not parse_configuration(configuration({**WEBHOOK, "timeoutSeconds": 4}))


@pytest.mark.parametrize("webhook", [{}, {"name": "a", "rules": [RULE], "clientConfig": {}}, "text"])
def test_objects_that_other_software_stored(webhook: Any) -> None:
    """Objects of other forms raise an error, so that they are left out."""
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        parse_configuration(configuration(webhook))
