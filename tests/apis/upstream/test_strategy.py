"""The rules of upstream kinds."""

from __future__ import annotations

import json

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.upstream.defaults import DEFAULTERS
from kcp_py.apis.upstream.strategy import UpstreamSchema, UpstreamStrategy
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from tests.corpus import CORPUS, needs_corpus, read, rows
from tests.server.handlers.answers import refused_manifests

INVALID = {
    # What upstream's decoder takes and its validation refuses.
    "APIService/kyverno-v1beta1.external.metrics.k8s.io-c1fec448.yaml",
}

POD = "io.k8s.api.core.v1.Pod"


def schema(model: str) -> UpstreamSchema:
    return UpstreamSchema(model, DEFAULTERS.get(model))


def test_rules_of_kinds():
    """Some kinds differ from the others in what updates and deletes ask for and answer."""
    rules = {kind.plural: UpstreamStrategy(kind, {}) for kind in upstream_kinds().values()}
    assert not rules["services"].validate_name("1st")
    assert rules["services"].validate_name("1st.x") == ["must not contain dots"]
    assert not rules["pods"].validate_name("1st.x")
    assert rules["services"].allow_create_on_update
    assert not rules["pods"].allow_create_on_update
    assert not rules["poddisruptionbudgets"].allow_unconditional_update
    assert rules["pods"].allow_unconditional_update
    assert rules["pods"].return_deleted_object
    assert not rules["deployments"].return_deleted_object
    assert rules["deployments"].has_generation
    assert not rules["nodes"].has_generation


def test_every_default_is_of_an_upstream_kind():
    """No rule is written for a type that is not there."""
    assert DEFAULTERS.keys() <= {kind.model for kind in upstream_kinds().values()}


def test_quantities_are_written_as_they_are_read():
    """A number becomes a text, and equal amounts are written in one way; other values are refused."""
    resources = {"limits": {"cpu": "1000m", "memory": 1024, "other": 0.5}, "requests": {"cpu": ".5"}}
    obj = {"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"containers": [{"name": "a", "resources": resources}]}}
    schema(POD).type_error(obj)
    assert resources == {"limits": {"cpu": "1", "memory": "1024", "other": "500m"}, "requests": {"cpu": "500m"}}
    resources["limits"] = {"cpu": "1 core"}
    with pytest.raises(StatusError, match="quantities must match"):
        schema(POD).type_error(obj)


def test_null_is_of_every_type():
    """Go's decoder leaves the zero value where there is null."""
    obj = {"metadata": {}, "spec": {"containers": [{"name": "a", "ports": None}], "replicas": None, "nodeName": None}}
    schema(POD).type_error(obj)
    with pytest.raises(StatusError, match="cannot unmarshal number into Go struct field") as raised:
        schema(POD).type_error({"kind": "Pod", "apiVersion": "v1", "metadata": {}, "spec": {"nodeName": 1}})
    assert raised.value.code == 400


def manifests():
    return [row for row in rows("manifests-index.jsonl") if key(row) in upstream_kinds()]


def key(row):
    group, _, version = row["api_version"].rpartition("/")
    return group, version, row["kind"]


@needs_corpus
def test_manifests_of_the_corpus():
    """Real objects of every kind are decoded as strictly as the index says, are valid, and keep all that they say."""
    seen = set()
    for row in manifests():
        kind = upstream_kinds()[key(row)]
        seen.add(kind.kind)
        obj = read(row["path"])
        obj.setdefault("metadata", {})
        before = json.loads(json.dumps(obj))
        compiled = schema_of(kind.model)
        compiled.type_error(obj)
        assert (compiled.prune(obj) == []) is row["valid"], row["path"]
        compiled.default(obj)
        path = row["path"].removeprefix("manifests/")
        if path not in INVALID and path not in refused_manifests() and kind.kind != "Job":
            # Labels of jobs are filled in later.
            assert compiled.validate(obj) == [], row["path"]
        if row["valid"]:
            assert list(lost(before, obj, "")) == [], row["path"]
        once = json.dumps(obj, sort_keys=True)
        compiled.type_error(obj)
        compiled.default(obj)
        assert json.dumps(obj, sort_keys=True) == once, row["path"]
    assert len(seen) > 20


def lost(before, after, path):
    """Where something that was said is not there any more, other than as a quantity, a null or a zero value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if not is_zero(value) and name not in after:
                yield f"{path}.{name}"
            else:
                yield from lost(value, after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from lost(one, other, f"{path}[]")
    elif not is_zero(before) and before != after and not isinstance(after, str):
        yield path


def is_zero(value):
    """Whether a decoder cannot tell a value from a missing one."""
    return all(map(is_zero, value.values())) if isinstance(value, dict) else not value


_COMPILED: dict[str, UpstreamSchema] = {}


def schema_of(model):
    if model not in _COMPILED:
        _COMPILED[model] = schema(model)
    return _COMPILED[model]


@needs_corpus
def test_golden_objects():
    """Upstream's golden objects have every field set: none is unknown, none of another type, none is lost or added."""
    assert CORPUS is not None
    folder = CORPUS / "tables" / "k8s-api-testdata" / "testdata" / "HEAD"
    seen = 0
    for kind in upstream_kinds().values():
        file = folder / f"{kind.group or 'core'}.{kind.version}.{kind.kind}.json"
        if file.is_file():
            seen += 1
            obj = json.loads(file.read_text())
            golden = json.loads(file.read_text())
            schema_of(kind.model).type_error(obj)
            assert schema_of(kind.model).prune(obj) == [], file.name
            assert obj == golden, file.name
            schema_of(kind.model).complete(obj)
            assert obj == golden, file.name
    assert seen > 40
