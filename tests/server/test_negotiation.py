from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.server.negotiation import (
    Representation,
    discovery_content_type,
    media_type,
    negotiate,
    negotiate_discovery,
    negotiate_document,
    negotiate_status,
    request_media,
    wants_pretty,
)

JSON = Representation("json")
YAML = Representation("yaml")
PROTOBUF = Representation("protobuf")
PRETTY = Representation(pretty=True)
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
        pytest.param(b"application/json;q=0, application/yaml", YAML, id="quality zero is the last choice"),
        pytest.param(b"application/json;q=0", JSON, id="quality zero is no refusal"),
        pytest.param(b"application/json;q=nonsense", JSON, id="quality that is none is zero"),
        pytest.param(b"*/*, application/yaml;q=0.1", YAML, id="what is named before wildcards, whatever the quality"),
        pytest.param(b"*", JSON, id="a lone asterisk"),
        pytest.param(b"application/json;profile=x", JSON, id="unknown parameter"),
        pytest.param(b"application/json;charset=utf-8", JSON, id="charset"),
        pytest.param(b"application/json;stream=watch", JSON, id="stream"),
        pytest.param(b"application/json;pretty=1", Representation("json", pretty=True), id="pretty"),
        pytest.param(b"text/html,application/xhtml+xml,*/*;q=0.8", JSON, id="browser"),
        pytest.param(b"application/vnd.kubernetes.protobuf,application/json", JSON, id="protobuf is skipped"),
        pytest.param(b"application/cbor,application/json;q=0.9", JSON, id="CBOR is skipped"),
        pytest.param(KUBECTL, TABLE, id="kubectl get"),
        pytest.param(b"application/yaml;as=Table;v=v1;g=meta.k8s.io", Representation("yaml", "Table", "v1"), id="table as YAML"),
        pytest.param(b'application/json;as="Table";v=v1;g=meta.k8s.io,application/yaml', YAML, id="quotes belong to the value"),
        pytest.param(METADATA, Representation("protobuf", "PartialObjectMetadata", "v1"), id="metadata informer"),
        pytest.param(b"*/*;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Representation("json", "PartialObjectMetadata", "v1"), id="any"),
        pytest.param(b"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/yaml", YAML, id="no table in protobuf"),
        pytest.param(
            b"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Representation("json", "PartialObjectMetadataList", "v1"),
            id="metadata list",
        ),
        pytest.param(b"application/json;as=Nothing;v=v1;g=meta.k8s.io,application/yaml", YAML, id="unknown transform is skipped"),
        pytest.param(b"application/json;as=Table;v=v2;g=meta.k8s.io,application/json", JSON, id="unknown version is skipped"),
        pytest.param(b"application/json;as=Table;v=v1;g=other,application/json", JSON, id="other group is skipped"),
        pytest.param(b"application/json;as=Table,application/yaml", YAML, id="transform without a group is skipped"),
        pytest.param(b"application/json;sv=v1,application/yaml", JSON, id="server version"),
        pytest.param(b"application/json;sv=v2,application/yaml", YAML, id="another server version is skipped"),
        pytest.param(b"application/json;stream=,application/yaml", JSON, id="no value, no parameter"),
        pytest.param(b"application/yaml;stream=watch,application/json", JSON, id="no streams of YAML"),
        pytest.param(b",".join([b"text/html"] * 300 + [b"application/yaml"]), None, id="too many clauses"),
        pytest.param(b"application/json" + b" " * 600, JSON, id="too long to be cached"),
    ],
)
def test_choice(accept, expected):
    """The best clause that can be served decides, and the others are passed over."""
    if expected is None:
        with pytest.raises(StatusError):
            negotiate(accept)
    else:
        assert negotiate(accept) == expected


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(b"application/vnd.kubernetes.protobuf,application/json", PROTOBUF, id="typed clients"),
        pytest.param(b"application/vnd.kubernetes.protobuf;stream=watch", PROTOBUF, id="stream"),
        pytest.param(b"application/vnd.kubernetes.protobuf;q=0.5,application/json;q=0.4", PROTOBUF, id="quality"),
        pytest.param(b"*/*", JSON, id="nobody gets it by chance"),
        pytest.param(b"application/vnd.kubernetes.protobuf;pretty=1", PROTOBUF, id="never indented"),
    ],
)
def test_protobuf(accept, expected):
    """Kinds that have a protobuf form are served in it."""
    assert negotiate(accept, protobuf=True) == expected


@pytest.mark.parametrize(
    ("accept", "available"),
    [
        pytest.param(b"text/html", True, id="other type"),
        pytest.param(b"application/*", True, id="half a wildcard"),
        pytest.param(b"*", True, id="a lone asterisk"),
        pytest.param(b"application/json;as=Table;v=v9;g=meta.k8s.io", False, id="past the route"),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_routes(accept, available, listed):
    """Routes of built-in kinds refuse what names none of their types, with the words of their router."""
    with pytest.raises(StatusError) as caught:
        negotiate(accept, protobuf=True, routed=True, listed=listed)
    types = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    streams = ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch" if listed else ""
    routed = f"406: Not Acceptable\n\nAvailable representations: {types}{streams}"
    assert caught.value.message == (routed if available else f"only the following media types are accepted: {types}")
    assert (caught.value.details == {}) is available


@pytest.mark.parametrize(
    "accept",
    [
        b"text/html",
        b"application/vnd.kubernetes.protobuf",
        b"application/cbor",
        b"application/json;as=Table;v=v9;g=meta.k8s.io",
        b"APPLICATION/JSON",
        b"application/json/x",
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
    assert caught.value.message == (
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_watch_has_no_yaml():
    """A stream is JSON or protobuf, wildcards mean JSON, and who prefers YAML is told so."""
    for accept in (b"application/yaml", b"application/yaml, application/json"):
        with pytest.raises(StatusError) as caught:
            negotiate(accept, watch=True)
        assert caught.value.message == (
            "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        )
    assert negotiate(b"application/json, application/yaml", watch=True) == JSON
    assert negotiate(b"*/*", watch=True) == JSON
    assert negotiate(KUBECTL, watch=True) == TABLE
    assert negotiate(b"application/vnd.kubernetes.protobuf", watch=True, protobuf=True).stream_content_type == (
        b"application/vnd.kubernetes.protobuf;stream=watch"
    )
    assert JSON.stream_content_type == b"application/json"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(None, JSON, id="none"),
        pytest.param(b"application/vnd.kubernetes.protobuf", PROTOBUF, id="protobuf, whatever the kind"),
        pytest.param(b"application/yaml", YAML, id="YAML"),
        pytest.param(KUBECTL, JSON, id="kubectl"),
        pytest.param(b"application/json;as=Table;v=v1;g=meta.k8s.io", PRETTY, id="no transform of errors"),
        pytest.param(b"application/json;sv=v1", PRETTY, id="no server version"),
        pytest.param(b"text/html", PRETTY, id="nothing acceptable"),
        pytest.param(b"\xff\xfe", PRETTY, id="no text"),
    ],
)
def test_status(accept, expected):
    """An error is written as the client accepts it, and indented where it accepts no error."""
    assert negotiate_status(accept) == expected


def test_documents():
    """What has one form is served in each media type."""
    assert negotiate_document(b"application/vnd.kubernetes.protobuf, */*") == PROTOBUF
    assert negotiate_document(b"application/json", pretty=True) == PRETTY
    with pytest.raises(StatusError):
        negotiate_document(b"text/html")


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
            id="protobuf",
        ),
        pytest.param(
            b"application/json,application/json;q=0.1;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            "APIGroupDiscoveryList",
            id="however little it is preferred",
        ),
        pytest.param(
            b"application/json,application/yaml;stream=watch;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "", id="stream"
        ),
    ],
)
def test_discovery(accept, transform):
    """Aggregated discovery is served to those who ask for its current version, plain discovery to all others."""
    assert negotiate_discovery(accept).transform == transform


def test_aggregated_discovery_in_every_media_type():
    """The Content-Type tells the form."""
    for subtype in (b"json", b"yaml", b"vnd.kubernetes.protobuf"):
        found = negotiate_discovery(b"application/%s;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" % subtype)
        assert discovery_content_type(found) == b"application/%s;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" % subtype


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
        pytest.param(b"Application/JSON; x=y ;", "json", id="case"),
        pytest.param(b"application/yaml", "yaml", id="YAML"),
    ],
)
def test_request_media(content_type, expected):
    """Bodies are JSON or YAML, whatever parameters the type carries."""
    assert request_media(content_type) == expected


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        pytest.param(b"application/json", "application/json", id="plain"),
        pytest.param(b" application/json ; a=b", "application/json", id="blanks"),
        pytest.param(b'application/json;a="b;\\"c";d=e', "application/json", id="quoted"),
        pytest.param(b"application/json;", "application/json", id="last semicolon"),
        pytest.param(b"application/json;;", "", id="empty parameter"),
        pytest.param(b"application/json;a", "", id="parameter without value"),
        pytest.param(b"application/json;a=b;A=c", "", id="repeated parameter"),
        pytest.param(b"application/json, application/yaml", "", id="several"),
        pytest.param(b"bogus", "bogus", id="no subtype"),
        pytest.param(b"/json", "", id="no type"),
        pytest.param(b'application/json;a="' + b"\\" * 5000, "", id="hostile"),
        pytest.param(b"\xff", "", id="no text"),
    ],
)
def test_media_type(content_type, expected):
    """A Content-Type is read as Go reads it."""
    assert media_type(content_type) == expected


@pytest.mark.parametrize("content_type", [b"text/plain", b"application/cbor", b"application/json;;", b"\xff"])
def test_unknown_request_media(content_type):
    """Any other body is 415 with the types that there are."""
    with pytest.raises(StatusError) as caught:
        request_media(content_type)
    assert caught.value.code == 415
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_protobuf_bodies():
    """A body in protobuf is taken where the kind has that form; where not, the answer does not offer it."""
    assert request_media(b"application/vnd.kubernetes.protobuf", protobuf=True) == "protobuf"
    with pytest.raises(StatusError) as caught:
        request_media(b"application/vnd.kubernetes.protobuf")
    assert caught.value.message.endswith("accepted media types include: application/json, application/yaml")


@given(st.binary(max_size=80))
def test_any_accept(accept):
    """Any header is understood or not acceptable."""
    try:
        outcome: object = negotiate(accept).media
    except StatusError as error:
        outcome = error.code
    assert outcome in {"json", "yaml", "protobuf", 406}
