"""Generated rules and requests, of few words so that they often match."""

from __future__ import annotations

from hypothesis import strategies as st

from kcp_py.authz.rbac.rules import PolicyRule
from kcp_py.request.requestinfo import UNPARSED, RequestInfo

VERBS = ("get", "list", "create", "*", "")
GROUPS = ("", "apps", "*")
RESOURCES = ("pods", "deployments", "pods/log", "deployments/log", "pods/*", "*/log", "*/*", "*", "")
NAMES = ("a", "b", "", "*", "\x00", "ä")
URLS = ("/", "/api", "/api/*", "/api/**", "/api/v1", "/ap*", "/*", "*", "**", "/api*/v1", "")


def some(values: tuple[str, ...], most: int = 3) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(values), max_size=most).map(tuple)


def some_rules(most: int = 4) -> st.SearchStrategy[tuple[PolicyRule, ...]]:
    rule = st.builds(PolicyRule, some(VERBS), some(GROUPS, 2), some(RESOURCES), some(NAMES, 2), some(URLS, 2))
    return st.lists(rule, max_size=most).map(tuple)


def resource_request(verb: str, group: str, resource: str, subresource: str = "", *, namespace: str = "", name: str = "") -> RequestInfo:
    return UNPARSED._replace(
        is_resource=True, verb=verb, group=group, resource=resource, subresource=subresource, namespace=namespace, name=name
    )


def url_request(verb: str, path: str) -> RequestInfo:
    return UNPARSED._replace(verb=verb, path=path)


ALL_REQUESTS = (
    *(
        resource_request(verb, group, resource, subresource, name=name)
        for verb in ("get", "list", "delete", "*")
        for group in ("", "apps", "batch")
        for resource in ("pods", "deployments", "secrets", "pods/log", "*")
        for subresource in ("", "log", "scale", "*")
        for name in ("", "a", "c", "\x00")
    ),
    *(
        url_request(verb, path)
        for verb in ("get", "list", "delete", "*")
        for path in ("", "/", "/api", "/api/", "/api/v1", "/apis", "/x", "*", "/api/*")
    ),
)
"""Each combination of words that rules have, and of words that they have not."""
