"""`parse_target`: the only parser of the logical cluster of a request. It is pure and reads the raw path before any decoding.

The forms are kcp's (`/clusters/<path>/…`, stripped once) plus the header of the first prototype. A path that is not canonical is
refused and never normalised, so that a proxy and this server cannot disagree about the cluster. There is one exception: Go's
`net/url` writes `*` as `%2A`, so all Go clients, including kubectl, write the wildcard in this way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from kcp_py.apimachinery.errors import StatusError, bad_request, unknown_path
from kcp_py.logicalcluster import ROOT, WILDCARD, InvalidClusterError, Name, Path, Wildcard, parse_path
from kcp_py.request.requestinfo import unescape

MAX_PATH_BYTES: Final = 8 * 1024
CACHED_PATHS: Final = 4096
_CACHED_PATH_BYTES: Final = 256

_PREFIX: Final = b"/clusters/"
_ESCAPED_WILDCARD: Final = frozenset((b"%2A", b"%2a"))
_CLUSTERLESS: Final = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/", "/metrics"))
_CLUSTERLESS_BELOW: Final = ("/healthz/", "/livez/", "/readyz/", "/.well-known/")


_OF_A_CLUSTER: Final = frozenset(("", "api", "apis", "openapi"))
"""First segments of the paths whose answers are those of a logical cluster: resources, discovery, OpenAPI, and the index of them."""
_OF_EACH_CLUSTER: Final = frozenset(("/version", "/version/", "/.well-known/openid-configuration", "/openid/v1/jwks"))
"""Other paths that each cluster answers, for those of its callers that may read them."""


class Target(NamedTuple):
    """The target of a request."""

    selection: Name | Path | Wildcard | None
    """A `Path` has to be resolved to a name. None if the request lacks a required cluster."""
    explicit: bool
    """Whether the client named it."""
    path: str
    """The remaining path for the API, decoded, beginning with a slash."""


def parse_target(raw_path: bytes, header: Sequence[bytes], default: Name | None, *, host: Name | None = None) -> Target:
    """Split a request path into the logical cluster and the rest.

    Args:
        raw_path: as sent, without the query.
        header: every value of the header that may name the cluster; empty if the header is disabled.
        default: the cluster of requests for resources, discovery and OpenAPI that name none; with None they have to name one. Other paths
            belong to the server, and so to `root`: administrators of the default cluster have no permission for them.
        host: the cluster that the host name of the request names.

    Raises:
        StatusError: 400 for ambiguous or not canonical requests, 404 for a second prefix, 501 for `/metrics` inside a cluster.
    """
    if not header and len(raw_path) <= _CACHED_PATH_BYTES:
        return _parse_path_cached(raw_path, default, host)
    return _parse_target(raw_path, header, default, host)


def bound_cached_paths(number: int) -> None:
    """Set how many paths without a header are cached in this process. The cache is emptied.

    Args:
        number: of paths; `CACHED_PATHS` by default.
    """
    global _parse_path_cached
    _parse_path_cached = lru_cache(maxsize=number)(_parse_path_cached.__wrapped__)


@lru_cache(maxsize=CACHED_PATHS)
def _parse_path_cached(raw_path: bytes, default: Name | None, host: Name | None) -> Target:
    """The target of a path without a header, cached. Refusals are not cached."""
    return _parse_target(raw_path, (), default, host)


def _parse_target(raw_path: bytes, header: Sequence[bytes], default: Name | None, host: Name | None) -> Target:
    if len(raw_path) > MAX_PATH_BYTES:
        raise bad_request(f"the request path is longer than {MAX_PATH_BYTES} bytes")
    named: Name | Path | Wildcard | None = None
    if raw_path.startswith(_PREFIX):
        end = raw_path.find(b"/", len(_PREFIX))
        segment = raw_path[len(_PREFIX) :] if end < 0 else raw_path[len(_PREFIX) : end]
        raw_path = b"/" if end < 0 else raw_path[end:]
        named = WILDCARD if segment in _ESCAPED_WILDCARD else _parse(segment)
        if raw_path.startswith(_PREFIX) or raw_path == b"/clusters":
            raise unknown_path()
    if header:
        if len(header) > 1:
            raise bad_request("the header that names the logical cluster is given more than once")
        from_header = _parse(header[0])
        if named is not None and named != from_header:
            raise bad_request("the path and the header name different logical clusters")
        named = from_header
    if host is not None:
        if named is not None and named != host:
            raise bad_request("the host and the path or the header name different logical clusters")
        named = host
    path = decode_path(raw_path)
    if named is None:
        if path in _CLUSTERLESS or path.startswith(_CLUSTERLESS_BELOW):
            return Target(ROOT, False, path)
        if path.split("/", 2)[1] not in _OF_A_CLUSTER:
            return Target(ROOT, False, path)
        return Target(default, False, path)
    if path == "/metrics":
        # Answered in plain text, as kcp does: the errors filter writes errors without a reason in this way.
        raise StatusError(501, "", "shard-level endpoint not available at workspace scope")
    return Target(named, True, path)


def belongs_to_cluster(path: str) -> bool:
    """Whether the answer to a path is that of a logical cluster, which a token can name in the place of the path.

    Args:
        path: decoded, without the prefix of a cluster.
    """
    return path.split("/", 2)[1] in _OF_A_CLUSTER or path in _OF_EACH_CLUSTER


@lru_cache(maxsize=4096)
def _parse_cached(segment: bytes) -> Name | Path | Wildcard:
    return parse_path(segment.decode("ascii"))


def _parse(segment: bytes) -> Name | Path | Wildcard:
    try:
        return _parse_cached(segment) if len(segment) < 256 else parse_path(segment.decode("ascii"))
    except UnicodeDecodeError:
        raise bad_request(str(InvalidClusterError(segment.decode("ascii", "backslashreplace")))) from None
    except InvalidClusterError as error:
        raise bad_request(str(error)) from None


def decode_path(raw: bytes) -> str:
    """Percent-decode a path, once, keeping its segments.

    Refused: empty and dot segments, backslashes, raw `;`, control characters, encoded slashes, incomplete escapes, invalid UTF-8.
    One trailing slash is kept.

    Raises:
        StatusError: 400.
    """
    # One pass in C for nearly every request.
    if b"%" not in raw and b"//" not in raw and b"/." not in raw and b";" not in raw and b"\\" not in raw and raw.isascii():
        text = raw.decode()
        if text.startswith("/") and " " not in text and text.isprintable():
            return text
    if not raw.startswith(b"/"):
        raise _not_canonical()
    segments = raw[1:].split(b"/")
    if b"" in segments[:-1]:
        raise _not_canonical()
    return "/" + "/".join(map(_decode_segment, segments))


def _decode_segment(raw: bytes) -> str:
    if b";" in raw or b"\\" in raw or any(not 0x20 < byte < 0x7F for byte in raw):
        raise _not_canonical()
    try:
        text = unescape(raw).decode()
    except ValueError:
        raise _not_canonical() from None
    if "/" in text or "\\" in text or text in {".", ".."} or not text.isprintable():
        raise _not_canonical()
    return text


def _not_canonical() -> StatusError:
    return bad_request("the request path is not in canonical form")
