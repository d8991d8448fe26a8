"""`parse_request`: method, path and query to verb, resource and name. Pure.

The rules are those of k8s.io/apiserver, `endpoints/request/requestinfo.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from kcp_py.apimachinery.errors import StatusError, bad_request
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.fieldselectors import parse_field_selector
from kcp_py.request.selectors import RequestSelectors

MAX_QUERY_BYTES: Final = 64 * 1024
MAX_QUERY_PARAMETERS: Final = 256
CACHED_PATHS: Final = 4096
_CACHED_PATH_CHARACTERS: Final = 256

Query = dict[str, list[str]]
"""Query parameters, decoded, each with its values in the order of the URL."""


class RequestInfo(NamedTuple):
    """The attributes of a request. For non-resource requests only `verb` (the lower-case method) and `path` are filled in."""

    is_resource: bool
    verb: str
    """get, list, watch, create, update, patch, delete, deletecollection, proxy; empty for a method without a verb."""
    api_prefix: str
    """`api`, `apis` or empty."""
    group: str
    version: str
    namespace: str
    resource: str
    subresource: str
    name: str
    """From the path; for list and watch, from a `metadata.name=` field selector, so that it can be authorized like a named request."""
    path: str
    """Decoded, without the cluster prefix."""
    parts: tuple[str, ...]
    """The segments from the resource on: resource, name, subresource, and further segments."""
    selectors: RequestSelectors | None = None
    """Of list, watch and deletecollection, not parsed; None without any, and for paths below `/watch/`."""


UNPARSED: Final = RequestInfo(False, "", "", "", "", "", "", "", "", "", ())
"""The info of a request that was refused before it was parsed."""


def resource_request(
    verb: str, resource: GroupVersionResource, namespace: str = "", name: str = "", *, subresource: str = ""
) -> RequestInfo:
    """The info of a request that did not come over HTTP.

    Args:
        verb: such as `create`.
        resource: the resource.
        namespace: empty for cluster-scoped resources.
        name: empty for a collection.
        subresource: empty for the object itself.
    """
    prefix = "apis" if resource.group else "api"
    parts = tuple(part for part in (resource.resource, name, subresource) if part)
    place = ("namespaces", namespace) if namespace else ()
    path = "/".join(("", prefix, *((resource.group,) if resource.group else ()), resource.version, *place, *parts))
    return RequestInfo(True, verb, prefix, *resource[:2], namespace, resource.resource, subresource, name, path, parts)


_SPECIAL_VERBS: Final = frozenset(("proxy", "watch"))
_SELECTING_VERBS: Final = frozenset(("list", "watch", "deletecollection"))
_NAMESPACE_SUBRESOURCES: Final = frozenset(("status", "finalize"))
_VERBS: Final[Mapping[str, str]] = {
    "POST": "create",
    "GET": "get",
    "HEAD": "get",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}


def parse_request(method: str, path: str, query: Mapping[str, Sequence[str]]) -> RequestInfo:
    """Parse the attributes of a request.

    Args:
        method: as sent, upper case.
        path: decoded, without the cluster prefix, beginning with a slash.
        query: as `parse_query` returns it.

    Raises:
        StatusError: 400 for a `/watch/` or `/proxy/` path that names nothing.
    """
    if len(path) <= _CACHED_PATH_CHARACTERS:
        info = _parse_path_cached(method, path)
        if not query or info.name or not info.is_resource:
            # The query has a meaning for collections alone.
            return info
    return _parse_request(method, path, query)


def bound_cached_paths(number: int) -> None:
    """Set how many paths are cached in this process. The cache is emptied.

    Args:
        number: of paths; `CACHED_PATHS` by default.
    """
    global _parse_path_cached
    _parse_path_cached = lru_cache(maxsize=number)(_parse_path_cached.__wrapped__)


@lru_cache(maxsize=CACHED_PATHS)
def _parse_path_cached(method: str, path: str) -> RequestInfo:
    """The attributes of a request as if it had no query, cached. Refusals are not cached, and do not depend on the query."""
    return _parse_request(method, path, {})


def _parse_request(method: str, path: str, query: Mapping[str, Sequence[str]]) -> RequestInfo:
    parts = path.strip("/").split("/")
    count = len(parts)
    prefix = parts[0]
    if prefix == "apis":
        if count < 4:
            return _non_resource(method, path)
        group, version, at = parts[1], parts[2], 3
    elif prefix == "api":
        if count < 3:
            return _non_resource(method, path)
        group, version, at = "", parts[1], 2
    else:
        return _non_resource(method, path)

    first = parts[at]
    special = first in _SPECIAL_VERBS
    if special:
        at += 1
        if at >= count:
            raise bad_request(f"unable to determine kind and namespace from url, {path}")
        # Only reads: a write sent to a watch path must not be authorized as a watch.
        verb = first if first == "proxy" or method in {"GET", "HEAD"} else ""
        first = parts[at]
    else:
        verb = _VERBS.get(method, "")

    namespace = ""
    if first == "namespaces" and at + 1 < count:
        namespace = parts[at + 1]
        # /namespaces/x/status is a subresource of the namespace; /namespaces/x/pods is a resource in it.
        if at + 2 < count and parts[at + 2] not in _NAMESPACE_SUBRESOURCES:
            at += 2
            first = parts[at]

    rest = tuple(parts[at:])
    size = len(rest)
    name = rest[1] if size > 1 else ""
    subresource = rest[2] if size > 2 and verb != "proxy" else ""
    selectors = None
    if not name:
        if verb == "get":
            verb = "watch" if _is_true(query.get("watch")) else "list"
            name = _selected_name(query)
        elif verb == "delete":
            verb = "deletecollection"
        if query and not special:
            selectors = _selectors(verb, query)
    return RequestInfo(True, verb, prefix, group, version, namespace, first, subresource, name, path, rest, selectors)


def _selectors(verb: str, query: Mapping[str, Sequence[str]]) -> RequestSelectors | None:
    if verb not in _SELECTING_VERBS or not ("fieldSelector" in query or "labelSelector" in query):
        return None
    field, label = (query[name][0] if name in query else "" for name in ("fieldSelector", "labelSelector"))
    return RequestSelectors(field, label) if field or label else None


def _non_resource(method: str, path: str) -> RequestInfo:
    return RequestInfo(False, method.lower(), "", "", "", "", "", "", "", path, ())


def _is_true(values: Sequence[str] | None) -> bool:
    """Only absence, `false` and `0` are false (k8s.io/apimachinery `runtime.Convert_Slice_string_To_bool`)."""
    return values is not None and values[0].lower() not in {"false", "0"}


def _selected_name(query: Mapping[str, Sequence[str]]) -> str:
    """The name that a field selector requires, if it is valid in a path."""
    values = query.get("fieldSelector")
    if not values or "metadata.name" not in values[0]:
        return ""
    try:
        name = parse_field_selector(values[0]).requires_exact_match("metadata.name")
    except (ValueError, StatusError):
        # The handler reports the error; authorization checks the whole collection.
        return ""
    return "" if name is None or name in {".", ".."} or "/" in name or "%" in name else name


def parse_query(query_string: bytes) -> Query:
    """Decode a query string strictly: `+` is a space, every escape must be complete and the result UTF-8, `;` separates nothing.

    Raises:
        StatusError: 400, for a malformed or oversized query.
    """
    if not query_string:
        return {}
    if len(query_string) > MAX_QUERY_BYTES:
        raise bad_request(f"the query is longer than {MAX_QUERY_BYTES} bytes")
    pairs = query_string.split(b"&")
    if len(pairs) > MAX_QUERY_PARAMETERS:
        raise bad_request(f"the query has more than {MAX_QUERY_PARAMETERS} parameters")
    query: Query = {}
    try:
        for pair in pairs:
            if pair:
                name, _, value = pair.partition(b"=")
                query.setdefault(_decode(name), []).append(_decode(value))
    except ValueError:
        raise bad_request("the query is malformed") from None
    return query


def _decode(text: bytes) -> str:
    if b"+" in text:
        text = text.replace(b"+", b" ")
    if b"%" in text:
        text = unescape(text)
    return text.decode()


_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


def unescape(text: bytes) -> bytes:
    """Percent-decode, and refuse incomplete escapes, which `urllib` accepts.

    Raises:
        ValueError: an incomplete escape.
    """
    for escape in text.split(b"%")[1:]:
        if len(escape) < 2 or escape[0] not in _HEXADECIMAL or escape[1] not in _HEXADECIMAL:
            raise ValueError("incomplete escape")
    return unquote_to_bytes(text)
