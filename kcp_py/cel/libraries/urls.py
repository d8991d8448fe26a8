"""URLs (apiserver `pkg/cel/library/urls.go`): absolute URIs and absolute paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, STRING, Type, list_of, map_of, opaque
from kcp_py.golang.urls import Url as GoUrl
from kcp_py.golang.urls import UrlError, check_request_uri, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["URLS", "Url"]

_TYPE: Final = opaque("kubernetes.URL")


@dataclass(frozen=True, slots=True)
class Url:
    """A URL; equal to each that is written in the same way."""

    cel_type: ClassVar[Type] = _TYPE

    parts: GoUrl


def _url(text: str) -> Url:
    """Read one; the fragment counts only once it is known to be an absolute one."""
    try:
        check_request_uri(text)
        return Url(parse_url(text))
    except UrlError as error:
        msg = f"URL parse error during conversion from string: {error}"
        raise EvaluationError(msg) from error


def _is_url(text: str) -> bool:
    """Whether a text can be read."""
    try:
        check_request_uri(text)
    except UrlError:
        return False
    return True


def _part(name: str, id_: str, read: Callable[[GoUrl], object], result: Type = STRING) -> Function:
    """A function on a URL."""
    return Function(name, (Overload(id_, (_TYPE,), result, member=True, implementation=lambda url: read(url.parts)),))


URLS: Final = Library(
    "kubernetes.urls",
    functions=(
        Function("url", (Overload("string_to_url", (STRING,), _TYPE, implementation=_url),)),
        Function("isURL", (Overload("is_url_string", (STRING,), BOOL, implementation=_is_url),)),
        _part("getScheme", "url_get_scheme", lambda parts: parts.scheme),
        _part("getHost", "url_get_host", lambda parts: parts.host),
        _part("getHostname", "url_get_hostname", lambda parts: parts.hostname),
        _part("getPort", "url_get_port", lambda parts: parts.port),
        _part("getEscapedPath", "url_get_escaped_path", lambda parts: parts.escaped_path),
        _part("getQuery", "url_get_query", lambda parts: parts.parameters(), map_of(STRING, list_of(STRING))),
    ),
    matches={"kubernetes.URL": Url},
)
