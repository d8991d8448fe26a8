from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.request import requestinfo
from kcp_py.request.requestinfo import MAX_QUERY_BYTES, MAX_QUERY_PARAMETERS, parse_query, parse_request
from kcp_py.request.selectors import RequestSelectors


@pytest.mark.parametrize(
    "case",
    [
        # The cases of upstream's TestGetAPIRequestInfo.
        ("GET", "/api/v1/namespaces", "list", "api", "", "v1", "", "namespaces", "", "", ["namespaces"]),
        ("GET", "/api/v1/namespaces/other", "get", "api", "", "v1", "other", "namespaces", "", "other", ["namespaces", "other"]),
        ("GET", "/api/v1/namespaces/other/pods", "list", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/namespaces/other/pods/foo", "get", "api", "", "v1", "other", "pods", "", "foo", ["pods", "foo"]),
        ("HEAD", "/api/v1/namespaces/other/pods/foo", "get", "api", "", "v1", "other", "pods", "", "foo", ["pods", "foo"]),
        ("GET", "/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("HEAD", "/api/v1/pods", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/namespaces/other/pods/foo/log", "get", "api", "", "v1", "other", "pods", "log", "foo", ["pods", "foo", "log"]),
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo", "proxy", "api", "", "v1", "other", "pods", "", "foo", ["pods", "foo"]),
        ("GET", "/api/v1/proxy/namespaces/other/pods/foo/sub/path", "proxy", "api", "", "v1", "other", "pods", "", "foo",
         ["pods", "foo", "sub", "path"]),
        ("GET", "/api/v1/watch/pods", "watch", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?watch=true", "watch", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?watch=false", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/watch/namespaces/other/pods", "watch", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/namespaces/other/pods?watch=1", "watch", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/namespaces/other/pods?watch=0", "list", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/namespaces/other/pods?watch=", "watch", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("PUT", "/api/v1/namespaces/other/finalize", "update", "api", "", "v1", "other", "namespaces", "finalize", "other",
         ["namespaces", "other", "finalize"]),
        ("PUT", "/api/v1/namespaces/other/status", "update", "api", "", "v1", "other", "namespaces", "status", "other",
         ["namespaces", "other", "status"]),
        ("PATCH", "/api/v1/namespaces/other/pods/foo", "patch", "api", "", "v1", "other", "pods", "", "foo", ["pods", "foo"]),
        ("DELETE", "/api/v1/namespaces/other/pods/foo", "delete", "api", "", "v1", "other", "pods", "", "foo", ["pods", "foo"]),
        ("POST", "/api/v1/namespaces/other/pods", "create", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("DELETE", "/api/v1/nodes", "deletecollection", "api", "", "v1", "", "nodes", "", "", ["nodes"]),
        ("DELETE", "/api/v1/namespaces", "deletecollection", "api", "", "v1", "", "namespaces", "", "", ["namespaces"]),
        ("DELETE", "/api/v1/namespaces/other/pods", "deletecollection", "api", "", "v1", "other", "pods", "", "", ["pods"]),
        ("DELETE", "/apis/extensions/v1/namespaces/other/pods", "deletecollection", "apis", "extensions", "v1", "other", "pods", "", "",
         ["pods"]),
        ("POST", "/apis/extensions/v1beta3/namespaces/other/pods", "create", "apis", "extensions", "v1beta3", "other", "pods", "", "",
         ["pods"]),
        ("GET", "/apis/g.io/v1/widgets/x/status", "get", "apis", "g.io", "v1", "", "widgets", "status", "x", ["widgets", "x", "status"]),
        ("OPTIONS", "/api/v1/pods", "", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods/", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        # The field selector that names one object.
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=foo", "list", "api", "", "v1", "", "pods", "", "foo", ["pods"]),
        ("GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name%3D%3Dfoo", "watch", "api", "", "v1", "", "pods", "", "foo", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=a=b,metadata.name=foo", "list", "api", "", "v1", "", "pods", "", "foo", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name!=foo", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=xmetadata.name=foo", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=a/b", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name=..", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("GET", "/api/v1/pods?fieldSelector=metadata.name", "list", "api", "", "v1", "", "pods", "", "", ["pods"]),
        ("DELETE", "/api/v1/pods?fieldSelector=metadata.name=foo", "deletecollection", "api", "", "v1", "", "pods", "", "", ["pods"]),
        # A write to a deprecated watch path must not pass for a watch.
        ("POST", "/api/v1/watch/pods", "", "api", "", "v1", "", "pods", "", "", ["pods"]),
    ],
)  # fmt: skip
def test_resource_requests(case):
    """A resource path tells verb, resource, namespace and name as upstream's parser does."""
    method, url, verb, prefix, group, version, namespace, resource, subresource, name, parts = case
    path, _, query = url.partition("?")
    info = parse_request(method, path, parse_query(query.encode()))
    assert info[:11] == (True, verb, prefix, group, version, namespace, resource, subresource, name, path, tuple(parts))


@pytest.mark.parametrize(
    ("method", "url", "expected"),
    [
        ("GET", "/api/v1/pods?fieldSelector=a=b&labelSelector=c", RequestSelectors("a=b", "c")),
        ("GET", "/api/v1/pods?watch=1&labelSelector=c&labelSelector=d", RequestSelectors("", "c")),
        ("GET", "/api/v1/namespaces/x/pods?fieldSelector=metadata.name%3Dfoo", RequestSelectors("metadata.name=foo", "")),
        ("DELETE", "/api/v1/namespaces/x/pods?labelSelector=!c", RequestSelectors("", "!c")),
        ("GET", "/api/v1/pods?labelSelector=((", RequestSelectors("", "((")),
        ("GET", "/api/v1/pods?labelSelector=", None),
        ("GET", "/api/v1/pods?limit=5", None),
        # Requests for one object have no selectors, and deprecated paths do not apply them reliably.
        ("GET", "/api/v1/namespaces/x/pods/foo?labelSelector=c", None),
        ("DELETE", "/api/v1/namespaces/x/pods/foo?labelSelector=c", None),
        ("POST", "/api/v1/namespaces/x/pods?labelSelector=c", None),
        ("GET", "/api/v1/watch/pods?labelSelector=c", None),
        ("GET", "/version?labelSelector=c", None),
    ],
)
def test_selectors(method, url, expected):
    """The first selectors of list, watch and deletecollection are kept as text, for authorizers that decide by them."""
    path, _, query = url.partition("?")
    assert parse_request(method, path, parse_query(query.encode())).selectors == expected


@pytest.mark.parametrize(
    ("method", "path", "verb"),
    [
        ("GET", "/", "get"),
        ("GET", "/api", "get"),
        ("GET", "/api/v1", "get"),
        ("GET", "/apis", "get"),
        ("GET", "/apis/g.io", "get"),
        ("GET", "/apis/g.io/v1", "get"),
        ("POST", "/healthz", "post"),
        ("GET", "/not-an-api/v1/namespaces/other/pods", "get"),
        ("GET", "/API/v1/pods", "get"),
        ("DELETE", "/clusters/a/api/v1/pods", "delete"),
    ],
)
def test_non_resource_requests(method, path, verb):
    """Any other path is known by itself and its method alone."""
    info = parse_request(method, path, {})
    assert not info.is_resource
    assert (info.verb, info.path, info.resource, info.parts) == (verb, path, "", ())


@pytest.mark.parametrize("path", ["/api/v1/watch", "/apis/g/v1/watch/", "/api/v1/proxy"])
def test_special_verb_without_resource(path):
    """A watch or proxy path that names nothing is refused."""
    with pytest.raises(StatusError) as caught:
        parse_request("GET", path, {})
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param(b"", {}, id="none"),
        pytest.param(b"a=1&b=2", {"a": ["1"], "b": ["2"]}, id="two"),
        pytest.param(b"a=1&a=2", {"a": ["1", "2"]}, id="repeated"),
        pytest.param(b"watch", {"watch": [""]}, id="without a value"),
        pytest.param(b"a=b=c", {"a": ["b=c"]}, id="only the first sign separates"),
        pytest.param(b"a=x+y%2B", {"a": ["x y+"]}, id="plus"),
        pytest.param(b"labelSelector=a%20in%20%28b%2Cc%29", {"labelSelector": ["a in (b,c)"]}, id="escapes"),
        pytest.param(b"&&a=1&", {"a": ["1"]}, id="empty pairs"),
        pytest.param(b"a=1;b=2", {"a": ["1;b=2"]}, id="semicolons separate nothing"),
        pytest.param(b"a=%e2%82%ac", {"a": ["\u20ac"]}, id="UTF-8"),
    ],
)
def test_query(query, expected):
    """A query is decoded once, keeping the order of repeated parameters."""
    assert parse_query(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(b"a=%zz", id="no escape"),
        pytest.param(b"a=%2", id="half an escape"),
        pytest.param(b"a=%", id="nothing of an escape"),
        pytest.param(b"a=%ff", id="not UTF-8"),
        pytest.param(b"a=%c0%af", id="overlong"),
        pytest.param(b"a=\xff", id="raw bytes"),
        pytest.param(b"a" * (MAX_QUERY_BYTES + 1), id="too long"),
        pytest.param(b"&".join([b"a"] * (MAX_QUERY_PARAMETERS + 1)), id="too many parameters"),
    ],
)
def test_malformed_query(query):
    """A malformed or oversized query is 400, never half understood."""
    with pytest.raises(StatusError) as caught:
        parse_query(query)
    assert caught.value.code == 400


@given(st.binary(max_size=60))
def test_query_of_any_bytes(query):
    """Any bytes are decoded or refused."""
    try:
        outcome: object = all(values for values in parse_query(query).values())
    except StatusError as error:
        outcome = error.code
    assert outcome in {True, 400}


@given(st.sampled_from(["GET", "POST", "PUT", "DELETE", "BREW"]), st.lists(st.text("abz/.:*", max_size=6), max_size=8))
def test_any_path(method, segments):
    """Any path is a resource request with a resource, a non-resource request, or refused."""
    try:
        info = parse_request(method, "/" + "/".join(["api", "v1", *segments]), {})
        outcome: object = not info.is_resource or info.parts[0] == info.resource
    except StatusError as error:
        outcome = error.code
    assert outcome in {True, 400}


def test_asking_again():
    """The method decides the verb of a path, independent of the number and order of requests."""
    path = "/api/v1/namespaces/other/pods"
    for _ in range(2):
        assert parse_request("GET", path, {}).verb == "list"
        assert parse_request("POST", path, {}).verb == "create"
        assert parse_request("GET", path, {"watch": ["true"]}).verb == "watch"
        with pytest.raises(StatusError):
            parse_request("GET", "/api/v1/watch", {})


def test_answers_do_not_depend_on_the_size_of_the_cache():
    """A process may cache few paths; it can be changed at any time."""
    paths = [f"/api/v1/namespaces/n{number}/pods" for number in range(5)]
    expected = [parse_request("GET", path, {}) for path in paths]
    try:
        for number in (0, 2):
            requestinfo.bound_cached_paths(number)
            assert [parse_request("GET", path, {}) for path in (*paths, *paths)] == expected * 2
    finally:
        requestinfo.bound_cached_paths(requestinfo.CACHED_PATHS)


_SEGMENTS = st.lists(st.sampled_from(["api", "apis", "v1", "watch", "proxy", "namespaces", "a", "pods", "status", ""]), max_size=8)
_QUERIES = st.dictionaries(
    st.sampled_from(["watch", "fieldSelector", "labelSelector", "x"]), st.just(["metadata.name=b"]) | st.just(["1"]), max_size=3
)


@given(st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "FOO"]), _SEGMENTS, _QUERIES)
def test_kept_paths_have_the_meaning_of_their_queries(method, segments, query):
    """The attributes of a path are kept without its query only where the query has no part in them."""
    path = "/" + "/".join(segments)

    def answer(parse):
        try:
            return parse(method, path, query)
        except StatusError as error:
            return error.code, error.message

    expected = answer(requestinfo._parse_request)
    assert [answer(parse_request) for _ in range(2)] == [expected, expected]
