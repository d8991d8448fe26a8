"""Bodies and configuration: JSON, YAML, objects of a kind, and the files that the program reads."""

from __future__ import annotations

import copy
import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.decoding import drop_malformed_fields, prune_object_meta, type_problem
from kcp_py.apimachinery.meta.objectmeta import validate_object_meta
from kcp_py.apimachinery.serializer.json.codec import (
    MAX_DEPTH,
    DecodeError,
    decode_json,
    duplicate_fields,
    encode_pretty,
    too_deep,
)
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict, encode_yaml
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.authn.tokenfile import TokenFileError, parse_tokens
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import load_context
from kcp_py.options.errors import OptionsError
from kcp_py.options.loading import load_options
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.conform import check_metadata
from kcp_py.server.handlers.body import decode
from tests.fuzz.mutation import mutated_bytes, of_json, of_text, one_of
from tests.fuzz.target import Target

METADATA: dict[str, Any] = {
    "name": "one",
    "generateName": "one-",
    "namespace": "default",
    "uid": "0b5a",
    "resourceVersion": "1",
    "generation": 2,
    "selfLink": "",
    "labels": {"app": "a", "example.com/b": ""},
    "annotations": {"a": "b", "kcp.io/cluster": "x"},
    "finalizers": ["example.com/f"],
    "creationTimestamp": "2024-01-01T00:00:00Z",
    "deletionTimestamp": None,
    "deletionGracePeriodSeconds": 0,
    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "1", "controller": True, "blockOwnerDeletion": None}],
    "managedFields": [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {".": {}, "f:a": {}}},
            "subresource": "status",
        }
    ],
}
CONFIG_MAP: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": METADATA,
    "data": {"a": "b"},
    "binaryData": {"c": "AAE="},
}
SECRET: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "Opaque", "stringData": {"a": "b"}}
ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "r"},
    "rules": [
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        {"verbs": ["*"], "nonResourceURLs": ["/*"]},
    ],
    "aggregationRule": {
        "clusterRoleSelectors": [{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]
    },
}
LEASE: dict[str, Any] = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {"name": "l"},
    "spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "acquireTime": "2024-01-01T00:00:00.000000Z", "leaseTransitions": 1},
}
QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q"},
    "spec": {"hard": {"cpu": "1", "memory": 1e9, "pods": 3}, "scopes": ["Terminating"]},
    "status": {"hard": {"cpu": "1500m"}},
}
OBJECTS = (CONFIG_MAP, SECRET, ROLE, LEASE, QUOTA)
YAMLS = (
    "a: 1\nb: [x, 'y', \"z\"]\nc:\n- d: ~\n  e: |\n    text\n",
    "a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n  e: 2\n",
    "? [a]\n: 1\n",
    "!!binary aGk=\n",
    "a: 2024-01-01\nb: 0x1F\nc: 0o17\nd: 1_000\ne: .inf\nf: .NaN\ng: 1:30\nh: !!str 1\ni: !custom x\n",
    "%YAML 1.1\n---\na: b\n...\n---\nc: d\n",
    "a: 1\na: 2\nb: {c: 1, c: 2}\n",
    "&a [*a]\n",
    "a: &a [1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
    *(encode_yaml(obj).decode() for obj in (CONFIG_MAP, ROLE)),
)
YAML_WORDS = (
    "&a",
    "*a",
    "<<",
    "---",
    "...",
    "!!str",
    "!!int",
    "!!map",
    "|",
    ">-",
    "? ",
    "- ",
    ": ",
    "\n  ",
    "{",
    "}",
    "[",
    "]",
    "#",
    "%TAG ! x",
)
CONFIGURATION = "apiVersion: kcp-py.io/v1\nkind: ServerConfiguration\nstorage: memory\nsecurePort: 6443\nwebhookNetworks: [10.0.0.0/8]\n"
KUBECONFIG = encode_yaml(
    {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "x", "user": "u"}}],
        "clusters": [{"name": "x", "cluster": {"server": "https://[::1]:6443/clusters/a", "certificate-authority-data": "AA=="}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
).decode()
TOKENS = ('t,u,1,"a,b"\n# x\n\nv,w,2\n', "t,u,1\n")


def targets() -> list[Target]:
    encoded = [orjson.dumps(obj) for obj in OBJECTS]
    yamls = [text.encode() for text in YAMLS]
    return [
        Target(name="json", make=of_json(OBJECTS), run=_json, seeds=encoded),
        Target(
            name="yaml", make=one_of(of_text(YAMLS, YAML_WORDS), of_json(OBJECTS)), run=_yaml, seeds=[*yamls, *encoded], calls_per_byte=400
        ),
        Target(name="body", make=one_of(of_json(OBJECTS), of_text(YAMLS[-2:], YAML_WORDS)), run=_body, seeds=encoded, calls_per_byte=400),
        Target(name="metadata", make=of_json([METADATA]), run=_metadata, seeds=[orjson.dumps(METADATA)]),
        Target(
            name="configuration",
            make=of_text([CONFIGURATION], YAML_WORDS),
            run=_configuration,
            seeds=[CONFIGURATION.encode()],
            calls_per_byte=1000,
        ),
        Target(
            name="kubeconfig", make=of_text([KUBECONFIG], YAML_WORDS), run=_kubeconfig, seeds=[KUBECONFIG.encode()], calls_per_byte=1000
        ),
        Target(
            name="token-file",
            make=lambda random: mutated_bytes(random, [text.encode() for text in TOKENS], [b'"', b",", b"\n", b"\r", b"\0"]),
            run=_tokens,
            seeds=[text.encode() for text in TOKENS],
        ),
    ]


def plain(value: Any) -> None:
    """What a decoder returns is what the rest of the program is made for."""
    assert not too_deep(value, MAX_DEPTH)
    waiting = [value]
    while waiting:
        one = waiting.pop()
        match one:
            case dict():
                assert all(type(name) is str for name in one)
                waiting += one.values()
            case list():
                waiting += one
            case bool() | None:
                pass
            case int():
                assert -(2**63) <= one < 2**63, one
            case float():
                assert one - one == 0, one
            case str():
                one.encode()
            case _:
                raise AssertionError(type(one))


def _json(data: bytes) -> None:
    try:
        value = decode_json(data)
    except DecodeError as error:
        assert str(error)
        return
    plain(value)
    duplicates = duplicate_fields(data, value)
    assert len(duplicates) <= 100
    written = orjson.dumps(value)
    assert decode_json(written) == value
    assert duplicate_fields(written) == []
    assert decode_json(encode_pretty(value)) == value
    again, strict = decode_yaml_strict(encode_yaml(value))
    assert again == value, (again, value)
    assert not strict
    # Python's own decoder is the oracle for valid JSON.
    json.loads(data)


def _yaml(data: bytes) -> None:
    try:
        value, strict = decode_yaml_strict(data)
    except DecodeError as error:
        assert str(error)
        return
    plain(value)
    assert len(strict) <= 1
    again, strict = decode_yaml_strict(encode_yaml(value))
    assert again == value, (again, value)
    assert not strict


@cache
def kinds() -> Sequence[ServedResource]:
    """The built-in kinds."""
    return builtin_resources("/registry")


def _body(data: bytes) -> None:
    for resource in kinds():
        if resource.resource not in {"configmaps", "secrets", "clusterroles", "leases", "resourcequotas"}:
            continue
        for media in ("json", "yaml"):
            repeated: list[str] = []
            try:
                obj = decode(data, media, resource, repeated)
                check_metadata(obj, resource)
            except StatusError as error:
                assert error.code in {400, 422}, error
                continue
            plain(obj)
            prune_object_meta(obj["metadata"])
            try:
                # What a typed kind cannot hold is told while its defaults are filled in.
                if resource.schema.type_error(obj) is not None:
                    continue
                resource.schema.prune(obj)
                resource.schema.default(obj)
            except StatusError as error:
                assert error.code == 400, error
                continue
            before = copy.deepcopy(obj)
            problems = resource.schema.validate(obj)
            assert obj == before
            assert all(str(problem) for problem in problems)
            resource.schema.default(obj)
            assert obj == before, "defaults are filled at once"


def _metadata(data: bytes) -> None:
    try:
        meta = decode_json(data)
    except DecodeError:
        return
    if type_problem({"metadata": meta}) is not None or not isinstance(meta, dict):
        if isinstance(meta, dict):
            drop_malformed_fields(meta)
            assert type_problem({"metadata": meta}) is None
        return
    prune_object_meta(meta)
    assert type_problem({"metadata": meta}) is None
    assert prune_object_meta(meta) == []
    validate_object_meta(meta, namespaced=True, validate_name=lambda _name: [])


def _in_file(data: bytes) -> str:
    with tempfile.NamedTemporaryFile(prefix="kcp-py-fuzz-", delete=False) as file:
        file.write(data)
    return file.name


def _configuration(data: bytes) -> None:
    path = _in_file(data)
    try:
        load_options(flags={}, environ={}, config_file=path)
    except OptionsError as error:
        assert error.problems
        assert not any("\n" in problem for problem in error.problems)
    finally:
        Path(path).unlink()


def _kubeconfig(data: bytes) -> None:
    path = _in_file(data)
    try:
        assert load_context(path, None).base_url
    except CommandError as error:
        assert str(error)
    finally:
        Path(path).unlink()


def _tokens(data: bytes) -> None:
    try:
        parse_tokens(data.decode("utf-8", "replace"), "file")
    except TokenFileError as error:
        assert "\n" not in str(error)
