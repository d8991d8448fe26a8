from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.server.negotiation import Representation, negotiate, negotiate_discovery, request_media, wants_pretty

JSON = Representation("json")
YAML = Representation("yaml")
TABLE = Representation("json", "Table", "v1")
KUBECTL = b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
METADATA = (
    b"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,"
    b"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(None, JSON, id="none"),
        pytest.param(b"", JSON, id="empty"),
        pytest.param(b"*/*", JSON, id="anything"),
        pytest.param(b"application/*", JSON, id="any application type"),
        pytest.param(b"application/json", JSON, id="JSON"),
        pytest.param(b"application/json, */*", JSON, id="client-go"),
        pytest.param(b"application/yaml", YAML, id="YAML"),
        pytest.param(b"application/yaml, application/json", YAML, id="order decides"),
        pytest.param(b"application/yaml;q=0.1, application/json", JSON, id="quality decides"),
        pytest.param(b"application/yaml;q=0.5, application/json;q=0.4", YAML, id="quality before order"),
        pytest.param(b"*/*, application/yaml", YAML, id="what is named before wildcards"),
        pytest.param(b"application/json;q=0, application/yaml", YAML, id="quality zero is a refusal"),
        pytest.param(b"APPLICATION/JSON", JSON, id="case"),
        pytest.param(b"application/json;profile=x", JSON, id="unknown parameter"),
        pytest.param(b"application/json;charset=utf-8", JSON, id="charset"),
        pytest.param(b"application/json;stream=watch", JSON, id="stream"),
        pytest.param(b"application/json;pretty=1", Representation("json", pretty=True), id="pretty"),
        pytest.param(b"text/html,application/xhtml+xml,*/*;q=0.8", JSON, id="browser"),
        pytest.param(b"application/vnd.kubernetes.protobuf,application/json", JSON, id="protobuf is skipped"),
        pytest.param(b"application/cbor,application/json;q=0.9", JSON, id="CBOR is skipped"),
        pytest.param(KUBECTL, TABLE, id="kubectl get"),
        pytest.param(b"application/yaml;as=Table;v=v1;g=meta.k8s.io", Representation("yaml", "Table", "v1"), id="table as YAML"),
        pytest.param(b'application/json;as="Table";v=v1beta1;g=meta.k8s.io', Representation("json", "Table", "v1beta1"), id="quoted"),
        pytest.param(METADATA, Representation("json", "PartialObjectMetadata", "v1"), id="metadata informer"),
        pytest.param(
            b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Representation("json", "PartialObjectMetadataList", "v1"),
            id="metadata list",
        ),
        pytest.param(b"application/json;as=Nothing;v=v1;g=meta.k8s.io,application/yaml", YAML, id="unknown transform is skipped"),
        pytest.param(b"application/json;as=Table;v=v2;g=meta.k8s.io,application/json", JSON, id="unknown version is skipped"),
        pytest.param(b"application/json;as=Table;v=v1;g=other,application/json", JSON, id="other group is skipped"),
        pytest.param(b"application/json;as=Table,application/yaml", YAML, id="transform without a group is skipped"),
        pytest.param(b"application/json;sv=v1,application/yaml", YAML, id="server version is skipped"),
        pytest.param(b"application/json" + b" " * 600, JSON, id="too long to be cached"),
    ],
)
def test_choice(accept, expected):
    """The best clause that can be served decides, and the others are passed over."""
    assert negotiate(accept) == expected


@pytest.mark.parametrize(
    "accept",
    [
        b"text/html",
        b"application/vnd.kubernetes.protobuf",
        b"application/cbor",
        b"application/json;as=Table;v=v9;g=meta.k8s.io",
        b"application/json;q=0",
        b"application/json;q=nonsense",
        b"application/json;stream=other",
        b"json",
        b",,,",
        b"\xff\xfe",
    ],
)
def test_nothing_acceptable(accept):
    """If no clause can be served, the answer says which media types could."""
    with pytest.raises(StatusError) as caught:
        negotiate(accept)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")
    assert caught.value.message == "only the following media types are accepted: application/json, application/yaml"


def test_watch_has_no_yaml():
    """A stream is JSON or nothing, and wildcards mean JSON."""
    with pytest.raises(StatusError) as caught:
        negotiate(b"application/yaml", watch=True)
    assert caught.value.message == "only the following media types are accepted: application/json;stream=watch"
    assert negotiate(b"application/yaml, application/json", watch=True) == JSON
    assert negotiate(b"*/*", watch=True) == JSON
    assert negotiate(KUBECTL, watch=True) == TABLE


def test_pretty_is_kept():
    """Pretty printing is part of the representation, with and without Accept."""
    assert negotiate(None, pretty=True).pretty
    assert negotiate(b"application/json", pretty=True).pretty
    assert negotiate(KUBECTL, pretty=True).pretty
    assert not negotiate(KUBECTL).pretty


@pytest.mark.parametrize(
    ("query", "agent", "expected"),
    [
        pytest.param({}, None, False, id="nothing"),
        pytest.param({}, b"kubectl/v1.37", False, id="kubectl"),
        pytest.param({}, b"curl/8.0", True, id="curl"),
        pytest.param({}, b"Wget/1.2", True, id="Wget"),
        pytest.param({}, b"Mozilla/5.0 (X11)", True, id="browser"),
        pytest.param({"pretty": ["true"]}, None, True, id="asked"),
        pytest.param({"pretty": ["1"]}, None, True, id="asked by number"),
        pytest.param({"pretty": ["false"]}, b"curl/8.0", False, id="declined"),
        pytest.param({"pretty": ["nonsense"]}, b"curl/8.0", False, id="nonsense declines"),
        pytest.param({"pretty": [""]}, b"curl/8.0", True, id="empty does not count"),
    ],
)
def test_pretty(query, agent, expected):
    """The parameter decides, else whether a person's tool asks."""
    assert wants_pretty(query, agent) is expected


@pytest.mark.parametrize(
    ("accept", "transform"),
    [
        pytest.param(None, "", id="none"),
        pytest.param(b"application/json", "", id="plain"),
        pytest.param(
            b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "APIGroupDiscoveryList", id="kubectl"
        ),
        pytest.param(
            b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer", "APIGroupDiscoveryList", id="profile"
        ),
        pytest.param(
            b"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", "", id="v2beta1 is gone"
        ),
        pytest.param(b"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "", id="table is skipped"),
        pytest.param(
            b"application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
            b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "APIGroupDiscoveryList",
            id="protobuf is skipped",
        ),
    ],
)
def test_discovery(accept, transform):
    """Aggregated discovery is served to those who ask for its current version, plain discovery to all others."""
    assert negotiate_discovery(accept).transform == transform


def test_aggregated_discovery_is_not_a_form_of_resources():
    """A resource asked for as discovery document is not acceptable."""
    with pytest.raises(StatusError):
        negotiate(b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param(None, "json", id="none"),
        pytest.param(b"", "json", id="empty"),
        pytest.param(b"application/json", "json", id="JSON"),
        pytest.param(b"application/json; charset=utf-8", "json", id="parameter"),
        pytest.param(b"Application/JSON;x", "json", id="case"),
        pytest.param(b"application/yaml", "yaml", id="YAML"),
    ],
)
def test_request_media(content_type, expected):
    """Bodies are JSON or YAML, whatever parameters the type carries."""
    assert request_media(content_type) == expected


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/vnd.kubernetes.protobuf", b"application/xml", b"\xff"])
def test_unknown_request_media(content_type):
    """Any other body is 415 with the types that would do."""
    with pytest.raises(StatusError) as caught:
        request_media(content_type)
    assert caught.value.code == 415
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml"
    )


@given(st.binary(max_size=80))
def test_any_accept(accept):
    """Any header is understood or not acceptable."""
    try:
        outcome: object = negotiate(accept).media
    except StatusError as error:
        outcome = error.code
    assert outcome in {"json", "yaml", 406}
