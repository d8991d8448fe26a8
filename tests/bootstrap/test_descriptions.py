"""Descriptions are served when the optional package is installed; without it, all else works."""

from __future__ import annotations

import pytest

from kcp_py.bootstrap import descriptions as module
from kcp_py.bootstrap.kinds import models

CONFIG_MAP = "io.k8s.api.core.v1.ConfigMap"


@pytest.fixture(autouse=True)
def _fresh():
    module.descriptions.cache_clear()
    yield
    module.descriptions.cache_clear()


def test_fields_are_described_when_the_package_is_installed():
    """A type, its scalar fields and its referenced fields get upstream's text; a reference keeps no siblings."""
    pytest.importorskip("kubernetes_validate")
    schema = module.with_descriptions(CONFIG_MAP, models()[CONFIG_MAP])
    assert schema["description"].startswith("ConfigMap holds configuration data")
    assert "UTF-8" in schema["properties"]["data"]["description"]
    assert set(schema["properties"]["metadata"]) == {"allOf", "description"}


def test_without_the_package_schemas_stay_as_they_are(monkeypatch):
    """Nothing fails and nothing changes when the package is missing."""
    monkeypatch.setattr(module, "find_spec", lambda _name: None)
    assert module.with_descriptions(CONFIG_MAP, models()[CONFIG_MAP]) is models()[CONFIG_MAP]


def test_unreadable_source_is_as_good_as_none(monkeypatch, tmp_path):
    """A package laid out in another way costs the descriptions, not the server."""
    broken = tmp_path / "_definitions.json"
    broken.write_text("[]")
    monkeypatch.setattr(module, "_source_file", lambda: broken)
    assert not module.descriptions()
