"""URLs as Go's `net/url` parses them, with its messages (`Parse`, `ParseRequestURI`, `URL.EscapedPath`, `URL.Query`; Go 1.26).

Go's strings are bytes, and `%ff` is one of them; here, paths and userinfo stay bytes, and texts have replacement characters for them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from kcp_py.golang.addresses import AddressError, parse_address
from kcp_py.golang.quoting import go_quote

__all__ = ["Url", "UrlError", "check_request_uri", "parse_url"]

_ALPHANUMERIC: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_UNRESERVED: Final = frozenset(_ALPHANUMERIC + b"-_.~")
_PATH: Final = _UNRESERVED | frozenset(b"$&+,/:;=@")
_FRAGMENT: Final = _UNRESERVED | frozenset(b"$&+,/:;=?@!()*")
_ENCODED: Final = frozenset(b"!$&'()*+,;=:@[]%")
_HOST: Final = _UNRESERVED | frozenset(b"!$&'()*+,;=:[]<>\"") | frozenset(range(0x80, 0x100))
_USERINFO: Final = frozenset(_ALPHANUMERIC.decode() + "-._:~!$&'()*+,;=%@")
_DIGITS: Final = frozenset("0123456789")
# Nothing is wrong with these; most texts are like them.
_PLAIN: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]*)?(?:/[A-Za-z0-9._~/-]*)?(?:\?[A-Za-z0-9._~/&=-]*)?")
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")
_CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")
_MOST_PARAMETERS: Final = 10_000


class UrlError(ValueError):
    """A text that is not a URL. The message is Go's."""


@dataclass(frozen=True)
class Url:
    """The parts of a URL. Equal when Go writes them as the same text.

    Attributes:
        scheme: in small letters.
        opaque: what follows the scheme where it begins with no slash.
        userinfo: None: there is none.
        host: with its port, unescaped.
        escaped_path: as it is written, or as it has to be.
        query: raw; None: not even a `?`.
        fragment: escaped.
    """

    scheme: str
    opaque: str
    userinfo: bytes | None
    host: str
    escaped_path: str
    query: str | None
    fragment: str

    @cached_property
    def _host_and_port(self) -> tuple[str, str]:
        """The host without brackets, and the port without its colon."""
        head, colon, port = self.host.rpartition(":")
        if not colon or not _DIGITS.issuperset(port):
            head, port = self.host, ""
        if head.startswith("[") and head.endswith("]"):
            head = head[1:-1]
        return head, port

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return self._host_and_port[0]

    @property
    def port(self) -> str:
        """The digits behind the host."""
        return self._host_and_port[1]

    def parameters(self) -> dict[str, list[str]]:
        """The query's keys with all of their values; what cannot be read is left out."""
        result: dict[str, list[str]] = {}
        if not self.query or self.query.count("&") >= _MOST_PARAMETERS:
            return result
        for pair in self.query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                name, content = _query_text(key), _query_text(value)
            except UrlError:
                continue
            result.setdefault(name, []).append(content)
        return result


def check_request_uri(text: str) -> None:
    """`url.ParseRequestURI`: an absolute URI, or an absolute path.

    Raises:
        UrlError: the text is neither.
    """
    if _PLAIN.fullmatch(text):
        return
    try:
        _parse(text, request=True)
    except UrlError as error:
        raise UrlError(f"parse {go_quote(text)}: {error}") from error


def parse_url(text: str) -> Url:
    """`url.Parse`.

    Raises:
        UrlError: the text is not a URL.
    """
    head, _, fragment = text.partition("#")
    try:
        return _parse(head, request=False, fragment=fragment)
    except UrlError as error:
        raise UrlError(f"parse {go_quote(head)}: {error}") from error


def _parse(text: str, *, request: bool, fragment: str = "") -> Url:
    """A URL without fragment."""
    if _CONTROL.search(text):
        raise UrlError("net/url: invalid control character in URL")
    if not text and request:
        raise UrlError("empty url")
    scheme, rest = _scheme(text)
    path, mark, raw_query = rest.partition("?")
    query = raw_query if mark else None
    written = _escaped(_unescaped(fragment.encode(errors="surrogatepass")), _FRAGMENT, fragment) if fragment else ""
    if text == "*":
        return Url("", "", None, "", "*", None, written)
    if not path.startswith("/"):
        if scheme:
            return Url(scheme, path, None, "", "", query, written)
        if request:
            raise UrlError("invalid URI for request")
        if ":" in path.partition("/")[0]:
            raise UrlError("first path segment in URL cannot contain colon")
    userinfo, host = None, ""
    if path.startswith("//") and (scheme or not (request or path.startswith("///"))):
        authority, slash, path = path[2:].partition("/")
        path = slash + path
        userinfo, host = _authority(authority)
    decoded = _unescaped(path.encode(errors="surrogatepass"))
    return Url(scheme, "", userinfo, host, _escaped(decoded, _PATH, path), query, written)


def _scheme(text: str) -> tuple[str, str]:
    """The scheme in small letters, and what follows it."""
    match = _SCHEME.match(text)
    if match is not None:
        return match[0][:-1].lower(), text[match.end() :]
    if text.startswith(":"):
        raise UrlError("missing protocol scheme")
    return "", text


def _authority(authority: str) -> tuple[bytes | None, str]:
    """Userinfo and host."""
    user, at, host = authority.rpartition("@")
    if not at:
        return None, _host(host)
    host = _host(host)
    if not _USERINFO.issuperset(user):
        raise UrlError("net/url: invalid userinfo")
    name, colon, password = user.partition(":")
    return b":".join([_unescaped(name.encode()), *([_unescaped(password.encode())] if colon else [])]), host


def _host(host: str) -> str:
    """A host with its port, unescaped."""
    opening = host.rfind("[")
    if opening < 0:
        colon = host.find(":")
        if colon >= 0:
            _check_port(host[colon:])
        return _host_text(host)
    closing = host.rfind("]")
    if closing < 0:
        raise UrlError("missing ']' in host")
    _check_port(host[closing + 1 :])
    name, mark, zone = host[opening + 1 : closing].partition("%25")
    literal = _host_text(name) + (_text(_unescaped((mark + zone).encode(errors="surrogatepass"), zone=True)) if mark else "")
    try:
        address = parse_address(literal)
    except AddressError as error:
        raise UrlError(f"invalid host: {error}") from error
    if address.family == 4:
        raise UrlError("invalid IP-literal")
    return f"[{literal}]{host[closing + 1 :]}"


def _check_port(text: str) -> None:
    """What follows a host is nothing, or a colon and digits."""
    if text and not (text[0] == ":" and _DIGITS.issuperset(text[1:])):
        raise UrlError(f"invalid port {go_quote(text)} after host")


def _host_text(host: str) -> str:
    """A host in which only bytes beyond ASCII may be escaped."""
    data = host.encode(errors="surrogatepass")
    for match in _ESCAPE.finditer(data):
        if match[1] is None or (match[1][0] in b"01234567" and match[1] != b"25"):
            raise _bad_escape(data, match.start())
    for byte in _ESCAPE.sub(b"", data):
        if byte not in _HOST:
            raise UrlError(f"invalid character {go_quote(chr(byte))} in host name")
    return _text(_unescaped(data))


def _bad_escape(data: bytes, start: int) -> UrlError:
    """Go's `EscapeError`, with up to three characters."""
    return UrlError(f"invalid URL escape {go_quote(_text(data[start : start + 3]))}")


def _unescaped(data: bytes, *, zone: bool = False) -> bytes:
    """The bytes of a text with each `%xx` decoded."""
    if b"%" not in data:
        return data
    for match in _ESCAPE.finditer(data):
        if match[1] is None:
            raise _bad_escape(data, match.start())
        byte = int(match[1], 16)
        if zone and match[1] != b"25" and byte != ord(" ") and byte not in _HOST:
            raise _bad_escape(data, match.start())
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), data)


def _escaped(decoded: bytes, safe: frozenset[int], written: str) -> str:
    """How Go writes a path or fragment: as it was written if every byte of that may stand there."""
    data = written.encode(errors="surrogatepass")
    if (safe | _ENCODED).issuperset(data):
        return written
    return "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in decoded)


def _query_text(text: str) -> str:
    """A key or a value of a query."""
    return _text(_unescaped(text.replace("+", " ").encode(errors="surrogatepass")))


def _text(data: bytes) -> str:
    """Bytes as text."""
    return data.decode(errors="replace")
