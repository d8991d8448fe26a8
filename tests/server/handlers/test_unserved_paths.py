"""Answers to paths with an unknown group, version, resource or subresource, recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

from typing import Final

import pytest

from tests.server.handlers.conftest import Api, established, make_crd

pytestmark = pytest.mark.anyio

_Answer = tuple[int, tuple[str, str, dict[str, str]] | None]
TEXT: Final[_Answer] = (404, None)
UNSERVED: Final[_Answer] = (404, ("NotFound", "the server could not find the requested resource", {}))
NO_METHOD: Final[_Answer] = (405, ("MethodNotAllowed", "the server does not allow this method on the requested resource", {}))


def absent(resource: str) -> _Answer:
    details = {"name": "one", "group": "example.com", "kind": resource}
    return 404, ("NotFound", f'{resource}.example.com "one" not found', details)


ANSWERS: Final = [
    (("GET", "POST"), "/api/v1/nodez", UNSERVED),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/api/v1/nodez/one", UNSERVED),
    (("GET", "POST"), "/api/v1/namespaces/default/nodez", UNSERVED),
    (("GET", "POST"), "/api/v1/namespaces/default/nodez/one/log", UNSERVED),
    (("GET", "POST"), "/api/v9", UNSERVED),
    (("GET", "POST"), "/api/v9/configmaps", UNSERVED),
    (("GET", "POST"), "/apis/rbac.authorization.k8s.io/v9", UNSERVED),
    (("GET", "POST"), "/apis/rbac.authorization.k8s.io/v9/roles", UNSERVED),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/apis/rbac.authorization.k8s.io/v1/foo", UNSERVED),
    (("GET", "POST"), "/apis/rbac.authorization.k8s.io/v1/namespaces/default", UNSERVED),
    (("GET",), "/api/v1/namespaces/default/namespaces/one", UNSERVED),
    (("GET", "POST"), "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles", UNSERVED),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/api/v1/configmaps/one", UNSERVED),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/api/v1/namespaces/default/configmaps/one/status", UNSERVED),
    (("GET",), "/api/v1/namespaces/default/configmaps/one/status/foo", UNSERVED),
    (("GET", "POST"), "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", UNSERVED),
    (("POST", "PUT", "PATCH", "DELETE"), "/api/v1/configmaps", NO_METHOD),
    (("PUT",), "/api/v1/namespaces/default/configmaps", NO_METHOD),
    (("POST",), "/api/v1/namespaces/default/configmaps/one", NO_METHOD),
    (("DELETE",), "/api/v1/namespaces", NO_METHOD),
    (("POST",), "/api/v1", NO_METHOD),
    (("GET", "POST"), "/apis/nope.io", TEXT),
    (("GET", "POST"), "/apis/nope.io/v1", TEXT),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/apis/nope.io/v1/foo", TEXT),
    (("GET", "POST"), "/apis/example.com/v9", TEXT),
    (("GET", "POST"), "/apis/example.com/v9/widgets", TEXT),
    (("GET", "POST", "PUT", "PATCH", "DELETE"), "/apis/example.com/v1/foo", TEXT),
    (("GET", "PUT"), "/apis/example.com/v1/widgets/one", TEXT),
    (("POST", "DELETE"), "/apis/example.com/v1/widgets", TEXT),
    (("GET",), "/apis/example.com/v1/namespaces/default/planets", TEXT),
    (("GET",), "/apis/example.com/v1/namespaces/default/planets/one", TEXT),
    (("GET", "PUT", "POST", "PATCH", "DELETE"), "/apis/example.com/v1/namespaces/default/widgets/one/foo", absent("widgets")),
    (("GET", "PUT"), "/apis/example.com/v1/planets/one/scale", absent("planets")),
    (("GET",), "/apis/example.com/v1/planets/one/foo/bar", absent("planets")),
]


async def test_paths_that_are_not_served(api: Api) -> None:
    """Groups of built-in kinds and subresources of custom resources answer with a Status, other groups in plain text."""
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
    planets = make_crd("planets")
    planets["spec"]["scope"] = "Cluster"
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", planets)
    await established(api, "a")
    await established(api, "a", "planets.example.com")
    wrong = []
    for methods, path, expected in ANSWERS:
        for method in methods:
            found = await answer(api, method, f"/clusters/a{path}")
            if found != expected:
                wrong.append((method, path, found))
    assert not wrong


async def answer(api: Api, method: str, path: str) -> _Answer:
    """The code, and what a Status says. None for the plain text."""
    response = await api(method, path, {} if method not in {"GET", "DELETE"} else None)
    if response.headers["content-type"] == "text/plain; charset=utf-8":
        assert response.text == "404 page not found\n"
        return response.status_code, None
    status = response.json()
    return response.status_code, (status["reason"], status["message"], status["details"])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/clusters/*/api/v1/nodez", UNSERVED),
        ("/clusters/*/api/v9", UNSERVED),
        ("/clusters/*/apis/nope.io/v1/foo", TEXT),
        ("/clusters/a/clusters/b/api/v1/configmaps", TEXT),
    ],
)
async def test_paths_of_all_clusters(api: Api, path: str, expected: object) -> None:
    """Over all clusters the answers are those of one cluster."""
    assert await answer(api, "GET", path) == expected
