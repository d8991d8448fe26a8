"""Real objects of built-in kinds are taken as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from kcp_py.apimachinery.kinds import parse_group_version
from kcp_py.apis.builtin.resources import builtin_resources
from tests.corpus import TABLES, needs_corpus

RESOURCES = {(resource.group, resource.version, resource.kind): resource for resource in builtin_resources("/registry")}

pytestmark = needs_corpus


def golden() -> list[Path]:
    folder = TABLES / "k8s-api-testdata" / "testdata" / "HEAD"
    files = [folder / f"{group or 'core'}.{version}.{kind}.json" for group, version, kind in RESOURCES]
    return [file for file in files if file.is_file()]


def manifests() -> list[Path]:
    kinds = {kind for _, _, kind in RESOURCES}
    return sorted(path for kind in kinds for path in (TABLES.parent / "manifests" / kind).glob("**/*.y*ml"))


def resource_of(obj: dict[str, Any]) -> Any:
    group, version = parse_group_version(obj["apiVersion"])
    return RESOURCES.get((group, version, obj["kind"]))


@pytest.mark.parametrize("file", golden(), ids=lambda file: file.stem)
def test_every_field_that_upstream_knows_is_known(file):
    """Upstream's golden objects have every field of the kind set: none is unknown, none of another type."""
    obj = orjson.loads(file.read_bytes())
    resource = resource_of(obj)
    assert resource.schema.prune(obj) == []
    before = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    resource.schema.default(obj)
    assert orjson.dumps(obj, option=orjson.OPT_SORT_KEYS) == before
    assert resource.schema.validate(obj) == []


def test_manifests_are_decoded_and_prepared():
    """What people write is decoded without a refusal, and a second preparation changes nothing more."""
    seen = 0
    for path in manifests():
        for obj in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader):
            resource = resource_of(obj) if isinstance(obj, dict) and "apiVersion" in obj and "kind" in obj else None
            if resource is None or not isinstance(obj.get("metadata"), dict):
                continue
            obj = orjson.loads(orjson.dumps(obj, default=str))  # noqa: PLW2901 (times as JSON has them)
            seen += 1
            resource.schema.prune(obj)
            resource.schema.default(obj)
            resource.strategy.prepare_for_create(obj)
            first = orjson.dumps(obj)
            resource.strategy.prepare_for_create(obj)
            assert orjson.dumps(obj) == first, path
            resource.strategy.validate(obj)
    assert seen > 100


def test_real_definitions_lose_nothing():
    """No field of a real CRD's schema is unknown to the kind CustomResourceDefinition."""
    resource = RESOURCES["apiextensions.k8s.io", "v1", "CustomResourceDefinition"]
    files = sorted((TABLES.parent / "crds").glob("*.yaml"))[::25]
    for file in files:
        obj = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
        if obj["apiVersion"] == "apiextensions.k8s.io/v1":
            obj = orjson.loads(orjson.dumps(obj, default=str))
            assert resource.schema.prune(obj) == [], file.name
            resource.schema.default(obj)
    assert files
