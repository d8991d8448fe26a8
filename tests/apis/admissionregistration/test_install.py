"""The kinds of the group as the server reads them."""

from __future__ import annotations

import copy

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration.install import GROUP, VALIDATING_WEBHOOKS, install
from kcp_py.apis.builtin.resources import builtin_resources
from tests.corpus import needs_corpus, read, rows

RESOURCES = {resource.kind: resource for resource in builtin_resources("/registry") if resource.group == GROUP}
UNDECODABLE = "ValidatingWebhookConfiguration/kcp-cowboy-intent-validator-ac3b54db.yaml"
"""Its bundle of certificates is a placeholder."""


def test_all_kinds_have_rules() -> None:
    """The rules are those of the kinds that kube-apiserver 1.37 serves by default."""
    assert {resource.group_resource for resource in RESOURCES.values()} == set(install())
    assert {(kind, resource.storage_version_hash) for kind, resource in RESOURCES.items()} == {
        ("MutatingAdmissionPolicy", "mHCkTKpUTrE="),
        ("MutatingAdmissionPolicyBinding", "ZKgZT1uTmZ0="),
        ("MutatingWebhookConfiguration", "Sqi0GUgDaX0="),
        ("ValidatingAdmissionPolicy", "6OxvlMmQ6is="),
        ("ValidatingAdmissionPolicyBinding", "v9715VZqakg="),
        ("ValidatingWebhookConfiguration", "B0wHjQmsGNk="),
    }
    assert GroupResource(GROUP, "validatingwebhookconfigurations") == VALIDATING_WEBHOOKS


@needs_corpus
@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_configurations_of_the_corpus(kind: str) -> None:
    """Configurations of real projects are decoded, filled with defaults once, and valid."""
    found = 0
    resource = RESOURCES[kind]
    for row in rows("manifests-index.jsonl"):
        if (row["api_version"], row["kind"]) != (f"{GROUP}/v1", kind):
            continue
        obj = read(row["path"])
        if row["path"].removeprefix("manifests/") == UNDECODABLE:
            with pytest.raises(StatusError):
                resource.schema.type_error(obj)
            continue
        resource.schema.type_error(obj)
        assert (resource.schema.prune(obj) == []) is row["valid"], row["path"]
        once = copy.deepcopy(obj)
        resource.schema.type_error(obj)
        assert obj == once
        assert resource.strategy.validate(obj) == [], row["path"]
        found += 1
    assert found > 3
