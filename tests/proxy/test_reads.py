"""Which requests a cache can answer."""

from __future__ import annotations

import pytest

from kcp_py.proxy.reads import Place, form_of, parse_place, parse_read

PODS = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (PODS, (Place("", "", "v1", "pods"), "default", "")),
        (f"{PODS}/one", (Place("", "", "v1", "pods"), "default", "one")),
        ("/api/v1/namespaces", (Place("", "", "v1", "namespaces"), "", "")),
        ("/api/v1/namespaces/one", (Place("", "", "v1", "namespaces"), "", "one")),
        ("/apis/apps/v1/deployments", (Place("", "apps", "v1", "deployments"), "", "")),
        ("/clusters/root:a/apis/apps/v1/deployments", (Place("/clusters/root:a", "apps", "v1", "deployments"), "", "")),
    ],
)
def test_resources(path: str, expected: tuple[Place, str, str]) -> None:
    """A namespace is an object of its own, too."""
    assert parse_place(path) == expected
    assert parse_place(path)[0].path in path or expected[1]  # type: ignore[index] # it is one


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/one/log",
        "/api/v1/namespaces/one/status",
        "/api/v1/namespaces/one/finalize",
        "/api/v1/watch/pods",
        "/api/v1",
        "/apis/apps/v1",
        "/version",
        "/clusters/%2A/api/v1/pods",
        "/clusters/*/api/v1/pods",
        "/clusters/../api/v1/pods",
        "/api/v1/namespaces/a%2Fb/pods",
        "/api/v1//pods",
        f"{PODS}/",
    ],
)
def test_other_paths_are_passed_on(path: str) -> None:
    """Also those that a server may read in another way than this proxy."""
    assert parse_place(path) is None


@pytest.mark.parametrize(
    "query",
    [
        "resourceVersion=1&resourceVersionMatch=Exact",
        "resourceVersion=abc",
        "resourceVersion=-1",
        "continue=abc",
        "fieldSelector=status.phase%3DRunning",
        "fieldSelector=metadata.name!%3Done",
        "fieldSelector=metadata.namespace%3Dother",
        "labelSelector=a%3D%3D%3Db",
        "limit=x",
        "limit=1&limit=2",
        "limit=1&resourceVersion=5",
        "resourceVersionMatch=NotOlderThan",
        "sendInitialEvents=true&resourceVersion=0",
        "watch=1&sendInitialEvents=true",
        "watch=1&sendInitialEvents=false&resourceVersion=5",
        "watch=1&resourceVersion=0&resourceVersionMatch=NotOlderThan",
        "watch=yes",
        "watch=",
        "watch=1&allowWatchBookmarks=maybe",
        "pretty=true",
        "unknown=1",
    ],
)
def test_other_queries_are_passed_on(query: str) -> None:
    """The API server knows what they mean, or refuses them."""
    assert parse_read(PODS, query, "") is None


@pytest.mark.parametrize(
    "query", ["limit=1", "limit=1&resourceVersion=0", "limit=1&resourceVersion=5&resourceVersionMatch=NotOlderThan", "watch=false&limit=0"]
)
def test_first_pages(query: str) -> None:
    """Those of exactly one version are the API server's; others may be answered as a whole."""
    read = parse_read(PODS, query, "")
    assert read is not None
    assert read.verb == "list"


def test_selectors() -> None:
    """A name or a namespace in a field selector is one in the question about permissions."""
    read = parse_read("/api/v1/pods", "fieldSelector=metadata.name%3Done,metadata.namespace%3Dx&labelSelector=a%3Db", "")
    assert read is not None
    assert (read.verb, read.namespace, read.name) == ("list", "x", "one")
    assert read.labels.matches({"a": "b"})
    assert not read.labels.matches({})
    query = "watch=1&allowWatchBookmarks=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&timeoutSeconds=7"
    watch = parse_read(PODS, query, "")
    assert watch is not None
    assert (watch.verb, watch.bookmarks, watch.initial_events, watch.seconds) == ("watch", True, False, 7)
    assert parse_read(f"{PODS}/one", "watch=1", "") is None
    assert parse_read(f"{PODS}/one", "labelSelector=a", "") is None


@pytest.mark.parametrize(
    ("accept", "form", "offline"),
    [
        ("", "object", "object"),
        ("*/*", "object", "object"),
        ("application/json", "object", "object"),
        ("application/vnd.kubernetes.protobuf,application/json", "object", "object"),
        ("application/vnd.kubernetes.protobuf", None, None),
        (TABLE, None, "object"),
        (PARTIAL, "metadata", "metadata"),
        ("application/yaml", None, None),
        ("application/yaml,application/json", None, "object"),
        ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1", None, None),
    ],
)
def test_forms(accept: str, form: str | None, offline: str | None) -> None:
    """JSON is as good as protobuf. In the place of a table it is better than no answer."""
    assert form_of(accept) == form
    assert form_of(accept, offline=True) == offline
