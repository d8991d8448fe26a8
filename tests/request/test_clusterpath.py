from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import ROOT, WILDCARD, Name, parse_path
from kcp_py.request import clusterpath
from kcp_py.request.clusterpath import MAX_PATH_BYTES, Target, decode_path, parse_target

DEFAULT = Name("main")


@pytest.mark.parametrize(
    ("raw", "header", "expected"),
    [
        pytest.param(b"/clusters/team-a/api/v1/pods", [], ("team-a", True, "/api/v1/pods"), id="path"),
        pytest.param(b"/clusters/team-a", [], ("team-a", True, "/"), id="path without a slash"),
        pytest.param(b"/clusters/team-a/", [], ("team-a", True, "/"), id="path with a slash"),
        pytest.param(b"/clusters/a/api", [], ("a", True, "/api"), id="one letter"),
        pytest.param(b"/clusters/" + b"a" * 63 + b"/api", [], ("a" * 63, True, "/api"), id="63 characters"),
        pytest.param(b"/clusters/root:org:team/api", [], ("root:org:team", True, "/api"), id="several segments"),
        pytest.param(b"/clusters/system:admin/api", [], ("system:admin", True, "/api"), id="system cluster"),
        pytest.param(b"/clusters/*/api/v1/pods", [], (WILDCARD, True, "/api/v1/pods"), id="wildcard by path"),
        pytest.param(b"/clusters/%2A/api/v1/pods", [], (WILDCARD, True, "/api/v1/pods"), id="wildcard as Go writes it"),
        pytest.param(b"/clusters/%2a/api/v1/pods", [], (WILDCARD, True, "/api/v1/pods"), id="wildcard in lower-case hexadecimal"),
        pytest.param(b"/api/v1/pods", [b"*"], (WILDCARD, True, "/api/v1/pods"), id="wildcard by header"),
        pytest.param(b"/api/v1/pods", [b"team-a"], ("team-a", True, "/api/v1/pods"), id="header"),
        pytest.param(b"/clusters/team-a/api", [b"team-a"], ("team-a", True, "/api"), id="both, equal"),
        pytest.param(b"/api/v1/pods", [], (DEFAULT, False, "/api/v1/pods"), id="default"),
        pytest.param(b"/", [], (DEFAULT, False, "/"), id="default, index"),
        pytest.param(b"/clusters", [], (ROOT, False, "/clusters"), id="a path that only resembles the prefix"),
        pytest.param(b"/Clusters/team-a/api", [], (ROOT, False, "/Clusters/team-a/api"), id="another case is no prefix"),
        pytest.param(b"/%63lusters/team-a/api", [], (ROOT, False, "/clusters/team-a/api"), id="an encoded prefix is no prefix"),
        pytest.param(b"/healthz", [], (ROOT, False, "/healthz"), id="bare health"),
        pytest.param(b"/readyz/etcd", [], (ROOT, False, "/readyz/etcd"), id="bare health check"),
        pytest.param(b"/metrics", [], (ROOT, False, "/metrics"), id="bare metrics"),
        pytest.param(b"/docs", [], (ROOT, False, "/docs"), id="a page of the server"),
        pytest.param(b"/tap/v1/changes", [], (ROOT, False, "/tap/v1/changes"), id="the store of all clusters"),
        pytest.param(b"/version", [], (ROOT, False, "/version"), id="bare version"),
        pytest.param(b"/version/", [], (ROOT, False, "/version/"), id="bare version with a slash"),
        pytest.param(b"/.well-known/openid-configuration", [], (ROOT, False, "/.well-known/openid-configuration"), id="well-known"),
        pytest.param(b"/clusters/team-a/livez", [], ("team-a", True, "/livez"), id="health in a cluster"),
        pytest.param(
            b"/clusters/a/apis/g/v1/clusters/x/status", [], ("a", True, "/apis/g/v1/clusters/x/status"), id="a resource called clusters"
        ),
    ],
)
def test_target(raw, header, expected):
    """The cluster is what the path or the header says, or the default, and the prefix is stripped once."""
    assert parse_target(raw, header, DEFAULT) == Target(*expected)


@pytest.mark.parametrize(
    ("raw", "header", "code", "message"),
    [
        pytest.param(b"/clusters/Bad_Name/api", [], 400, 'invalid cluster: "Bad_Name" does not match the regex', id="bad name"),
        pytest.param(b"/clusters//api", [], 400, 'invalid cluster: "" does not match the regex', id="empty name"),
        pytest.param(b"/clusters/", [], 400, "does not match", id="empty name at the end"),
        pytest.param(b"/clusters/" + b"a" * 64 + b"/api", [], 400, "does not match", id="64 characters"),
        pytest.param(b"/clusters/a" + b"a" * 300 + b"/api", [], 400, "does not match", id="too long to be cached"),
        pytest.param(b"/clusters/../clusters/team-b/api", [], 400, "does not match", id="dots for a name"),
        pytest.param(b"/clusters/team-a/../team-b/api", [], 400, "canonical", id="dot segment after the name"),
        pytest.param(b"/clusters/team-a/%2e%2e/team-b/api", [], 400, "canonical", id="encoded dot segment"),
        pytest.param(b"/clusters/team-a/%2E./team-b/api", [], 400, "canonical", id="half encoded dot segment"),
        pytest.param(b"/clusters/team-a/./api", [], 400, "canonical", id="single dot segment"),
        pytest.param(b"/clusters/team-a/.", [], 400, "canonical", id="single dot at the end"),
        pytest.param(b"/clusters/team-a%2fapi", [], 400, "does not match", id="encoded slash in the name"),
        pytest.param(b"/clusters/team-a%252fapi", [], 400, "does not match", id="doubly encoded slash in the name"),
        pytest.param(b"/clusters/team-a%5capi", [], 400, "does not match", id="encoded backslash in the name"),
        pytest.param(b"/clusters/team-a;x=1/api", [], 400, "does not match", id="parameter in the name"),
        pytest.param(b"/clusters/team-a/api;x=1", [], 400, "canonical", id="parameter in a segment"),
        pytest.param(b"/clusters/team-a/api\\v1", [], 400, "canonical", id="backslash"),
        pytest.param(b"/clusters/team-a//api", [], 400, "canonical", id="empty segment"),
        pytest.param(b"//clusters/team-a/api", [], 400, "canonical", id="double slash before the prefix"),
        pytest.param(b"/./clusters/team-a/api", [], 400, "canonical", id="dot before the prefix"),
        pytest.param(b"/clusters/team-a./api", [], 400, "does not match", id="trailing dot"),
        pytest.param(b"/clusters/team-a%20/api", [], 400, "does not match", id="trailing space"),
        pytest.param(b"/clusters/team-a%00/api", [], 400, "does not match", id="NUL in the name"),
        pytest.param(b"/clusters/team-a/api/v1/pods/x%00y", [], 400, "canonical", id="NUL in a segment"),
        pytest.param(b"/clusters/team-a/api/v1/pods/x%2fy", [], 400, "canonical", id="encoded slash in a segment"),
        pytest.param(b"/clusters/team-a/api/v1/pods/x%5Cy", [], 400, "canonical", id="encoded backslash in a segment"),
        pytest.param(b"/clusters/team-a/api/%c0%af", [], 400, "canonical", id="overlong slash"),
        pytest.param(b"/clusters/%c0%ae%c0%ae/api", [], 400, "does not match", id="overlong dots for a name"),
        pytest.param(b"/clusters/team-a/api/%ff", [], 400, "canonical", id="not UTF-8"),
        pytest.param(b"/clusters/team-a/api/%zz", [], 400, "canonical", id="no escape"),
        pytest.param(b"/clusters/team-a/api/%2", [], 400, "canonical", id="half an escape"),
        pytest.param(b"/clusters/team-\xc3\xa9/api", [], 400, "does not match", id="raw bytes in the name"),
        pytest.param(b"/clusters/team-a/\xc3\xa9", [], 400, "canonical", id="raw bytes in a segment"),
        pytest.param(b"/clusters/team-a/a b", [], 400, "canonical", id="raw space"),
        pytest.param("/clusters/t\u0435am-a/api".encode(), [], 400, "does not match", id="look-alike letter"),
        pytest.param(b"/clusters/Team-A/api", [], 400, "does not match", id="upper case"),
        pytest.param(b"/clusters/%74eam-a/api", [], 400, "does not match", id="encoded letter in the name"),
        pytest.param(b"/clusters/%252a/api/v1/pods", [], 400, "does not match", id="wildcard encoded twice"),
        pytest.param(b"/clusters/%2a%2a/api/v1/pods", [], 400, "does not match", id="two encoded wildcards"),
        pytest.param(b"/clusters/**/api/v1/pods", [], 400, "does not match", id="two wildcards"),
        pytest.param(b"/clusters/*:a/api/v1/pods", [], 400, "does not match", id="wildcard as a segment"),
        pytest.param(b"/clusters/a,b/api/v1/pods", [], 400, "does not match", id="list of names"),
        pytest.param(b"/api", [b"a", b"a"], 400, "more than once", id="header twice, equal"),
        pytest.param(b"/api", [b"a", b"b"], 400, "more than once", id="header twice"),
        pytest.param(b"/clusters/a/api", [b"b"], 400, "different logical clusters", id="path and header differ"),
        pytest.param(b"/clusters/a/api", [b"*"], 400, "different logical clusters", id="path and wildcard header differ"),
        pytest.param(b"/api", [b""], 400, "does not match", id="empty header"),
        pytest.param(b"/api", [b"a,b"], 400, "does not match", id="list in the header"),
        pytest.param(b"/api", [b"%2a"], 400, "does not match", id="encoded wildcard header"),
        pytest.param(b"/api", [b"t\xc3\xa9"], 400, "does not match", id="raw bytes in the header"),
        pytest.param(b"/clusters/a/clusters/b/api", [], 404, "404 page not found", id="second prefix"),
        pytest.param(b"/clusters/a/clusters/b/clusters/c/api", [], 404, "404 page not found", id="third prefix"),
        pytest.param(b"/clusters/a/metrics", [], 501, "shard-level endpoint not available at workspace scope", id="metrics in a cluster"),
        pytest.param(b"/clusters/root/metrics", [], 501, "shard-level endpoint", id="metrics in root"),
        pytest.param(b"/metrics", [b"a"], 501, "shard-level endpoint", id="metrics in a cluster by header"),
        pytest.param(b"clusters/a", [], 400, "canonical", id="no slash at the start"),
        pytest.param(b"", [], 400, "canonical", id="empty path"),
        pytest.param(b"/" + b"a" * MAX_PATH_BYTES, [], 400, "longer than", id="too long"),
    ],
)
def test_refusal(raw, header, code, message):
    """Whatever is not canonical is refused and never becomes another cluster."""
    with pytest.raises(StatusError) as caught:
        parse_target(raw, header, DEFAULT)
    assert caught.value.code == code
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param(b"/api/v1/pods/", "/api/v1/pods/", id="trailing slash stays"),
        pytest.param(b"/apis/g/v1/clusterroles/system%3Aadmin", "/apis/g/v1/clusterroles/system:admin", id="colon"),
        pytest.param(b"/api/v1/x/a%20b", "/api/v1/x/a b", id="space"),
        pytest.param(b"/api/v1/x/a%252fb", "/api/v1/x/a%2fb", id="decoded once only"),
        pytest.param(b"/api/v1/x/%e2%82%ac", "/api/v1/x/\u20ac", id="UTF-8"),
        pytest.param(b"/api/v1/x/a.b", "/api/v1/x/a.b", id="dots inside"),
        pytest.param(b"/api/v1/x/...", "/api/v1/x/...", id="three dots are a name"),
        pytest.param(b"/api/v1/x/a%3Bb", "/api/v1/x/a;b", id="encoded semicolon"),
    ],
)  # fmt: skip
def test_decoding(raw, expected):
    """A path is decoded once and keeps its segments."""
    assert decode_path(raw) == expected


_piece = st.sampled_from(
    [b"/", b"//", b"clusters", b"/clusters/", b"team-a", b"team-b", b"*", b"%2a", b"..", b".", b"%2e", b"%2f", b"%5c", b"\\", b";", b"%00",
     b"%c0%af", b"root:org", b"system:admin", b"api", b"healthz", b"metrics", b"%", b"\xff", b" ", b"A"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "selection"),
    [
        pytest.param(b"/api/v1/pods", None, id="resources"),
        pytest.param(b"/apis/g/v1/things/x", None, id="custom resources"),
        pytest.param(b"/api", None, id="discovery"),
        pytest.param(b"/apis/", None, id="discovery with a slash"),
        pytest.param(b"/openapi/v3", None, id="OpenAPI"),
        pytest.param(b"/%61pi/v1/pods", None, id="an encoded path"),
        pytest.param(b"/", None, id="index"),
        pytest.param(b"/healthz", ROOT, id="health"),
        pytest.param(b"/readyz/etcd", ROOT, id="health check"),
        pytest.param(b"/livez", ROOT, id="liveness"),
        pytest.param(b"/version", ROOT, id="version"),
        pytest.param(b"/metrics", ROOT, id="metrics"),
        pytest.param(b"/docs", ROOT, id="a page of the server"),
        pytest.param(b"/clusters/team-a/api/v1/pods", "team-a", id="named"),
        pytest.param(b"/clusters/*/api/v1/pods", WILDCARD, id="wildcard"),
    ],
)
def test_without_a_default(raw, selection):
    """Nothing of a cluster is reached without naming it; the server's own pages are."""
    assert parse_target(raw, [], None).selection == selection


@given(
    raw=st.one_of(st.lists(_piece, max_size=12).map(b"".join), st.binary(max_size=40).map(lambda rest: b"/clusters/" + rest)),
    header=st.lists(st.sampled_from([b"team-a", b"team-b", b"*", b"", b"root:org", b"x/y"]), max_size=2),
)
@example(raw=b"/clusters/team-a/%2e%2e/team-b", header=[])
def test_never_another_cluster(raw, header):
    """For any bytes the parser refuses, or returns a cluster that stands literally in the path, in the header, or is the default."""
    try:
        target = parse_target(raw, header, DEFAULT)
    except StatusError as error:
        refused = error.code
    else:
        refused = 0
    assert refused in {0, 400, 404, 501}
    if refused:
        return
    in_path = raw.split(b"/")[2].decode() if raw.startswith(b"/clusters/") else None
    if in_path in {"%2a", "%2A"}:
        in_path = "*"
    if in_path is not None:
        assert target.selection == parse_path(in_path)
        assert not header or header == [in_path.encode()]
    elif header:
        assert [str(target.selection).encode()] == header
    else:
        assert target.selection in {DEFAULT, ROOT}
        assert not target.explicit
    segments = target.path.split("/")
    assert segments[0] == ""
    assert not {".", ".."} & set(segments)
    assert "" not in segments[1:-1]
    assert target.path.isprintable()


@pytest.mark.parametrize("raw", [b"/clusters/team-a/api", b"/api", b"/clusters/Bad/api", b"/clusters/a/metrics", b"/api//v1"])
def test_asking_again(raw):
    """A path gets equal answers or refusals each time. Defaults belong to the caller, and header values are not cached."""

    def outcome(default, header=()):
        try:
            return parse_target(raw, header, default)
        except StatusError as error:
            return error.code, error.message

    first = outcome(DEFAULT)
    other = outcome(Name("other"))
    assert outcome(DEFAULT) == first
    if raw == b"/api":
        assert other.selection == "other"
        assert outcome(DEFAULT, [b"team-b"]).selection == "team-b"
        assert outcome(DEFAULT) == first


def test_answers_do_not_depend_on_the_size_of_the_cache():
    """A process may cache few paths; it can be changed at any time."""
    paths = [f"/api/v1/namespaces/n{number}/pods" for number in range(5)]
    expected = [parse_target(path.encode(), [], None) for path in paths]
    try:
        for number in (0, 2):
            clusterpath.bound_cached_paths(number)
            assert [parse_target(path.encode(), [], None) for path in (*paths, *paths)] == expected * 2
    finally:
        clusterpath.bound_cached_paths(clusterpath.CACHED_PATHS)
