"""Which representation a client gets and which one it sent (k8s.io/apiserver `endpoints/handlers/negotiation`).

Every kind is written as JSON and YAML. Kinds that clients have compiled in are written as protobuf too, others not: of those only the
metadata alone has such a form, and errors, which are the same for all. A clause of Accept that cannot be served (CBOR, an unknown `as=`) is
passed over; unknown parameters such as `profile=` are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from kcp_py.apimachinery.errors import StatusError, not_acceptable, unsupported_media_type
from kcp_py.registry.writerequest import Media
from kcp_py.server.accept import Clause, names_any_of, parse_accept

Transform = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"]

PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
ACCEPTED: Final = ("application/json", "application/yaml", PROTOBUF)
ACCEPTED_STREAMS: Final = ("application/json;stream=watch", f"{PROTOBUF};stream=watch")

_MAX_HEADER_BYTES: Final = 8 * 1024
_MAX_CACHED_BYTES: Final = 512
_SUBTYPES: Final[Mapping[Media, str]] = {"json": "json", "yaml": "yaml", "protobuf": "vnd.kubernetes.protobuf"}
_CONTENT_TYPES: Final[Mapping[Media, bytes]] = {media: b"application/" + subtype.encode() for media, subtype in _SUBTYPES.items()}


class Representation(NamedTuple):
    """How an answer is written."""

    media: Media = "json"
    transform: Transform = ""
    """What the object is turned into; empty for the object itself."""
    transform_version: str = ""
    """`v1` or `v1beta1` of meta.k8s.io, where there is a transform."""
    pretty: bool = False
    """Whether JSON is indented."""

    @property
    def content_type(self) -> bytes:
        """Of a whole answer."""
        return _CONTENT_TYPES[self.media]

    @property
    def stream_content_type(self) -> bytes:
        """Of a watch."""
        return b"application/json" if self.media == "json" else self.content_type + b";stream=watch"

    @property
    def api_version(self) -> str:
        """Of what the transform makes."""
        return f"meta.k8s.io/{self.transform_version}"


DEFAULT: Final = Representation()
PLAIN: Final = frozenset((None, b"", b"*/*", b"application/json"))
"""Values of Accept, or none, that ask for JSON without a transform."""
TOOLS_OF_PEOPLE: Final = (b"curl", b"Wget", b"Mozilla/5.0")
"""How the User-Agent of tools begins that show answers to people."""
_PRETTY: Final = Representation(pretty=True)

_TRANSFORMS: Final[Mapping[str, Transform]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_META_VERSIONS: Final = frozenset(("v1", "v1beta1"))
_DISCOVERY: Final = ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2")


def negotiate(
    accept: bytes | None, *, pretty: bool = False, watch: bool = False, protobuf: bool = False, routed: bool = False, listed: bool = False
) -> Representation:
    """Choose the representation of a resource or a list.

    Args:
        accept: the header.
        pretty: what `wants_pretty` says.
        watch: whether it is for a stream, which has no YAML form.
        protobuf: whether objects of the kind have a protobuf form.
        routed: whether the kind is built in: its routes look at Accept before the handler does, less closely and in other words.
        listed: whether the route is that of lists and watches, which has more to offer.

    Raises:
        StatusError: 406, nothing that the client accepts can be served.
    """
    if not accept or accept in PLAIN:
        return _PRETTY if pretty else DEFAULT
    if len(accept) > _MAX_CACHED_BYTES:
        return _choose(accept, pretty, watch, protobuf, routed, listed)
    return _choose_cached(accept, pretty, watch, protobuf, routed, listed)


def negotiate_discovery(accept: bytes | None, *, pretty: bool = False) -> Representation:
    """Choose between the plain and the aggregated form of `/api` and `/apis`: transform `APIGroupDiscoveryList` or none.

    The aggregated form is served to clients that accept it at all, even if they prefer another one.

    Raises:
        StatusError: 406, nothing that the client accepts can be served.
    """
    if not accept:
        return _PRETTY if pretty else DEFAULT
    if len(accept) > _MAX_CACHED_BYTES:
        return _choose_discovery(accept, pretty)
    return _choose_discovery_cached(accept, pretty)


def negotiate_document(accept: bytes | None, *, pretty: bool = False) -> Representation:
    """Choose the representation of what has one form only, such as a group's discovery document.

    Raises:
        StatusError: 406, nothing that the client accepts can be served.
    """
    found = _document(accept, pretty=pretty)
    if found is None:
        raise not_acceptable(ACCEPTED)
    return found


def negotiate_status(accept: bytes | None, *, pretty: bool = False) -> Representation:
    """Choose the representation of an error; who accepts none gets indented JSON."""
    return _document(accept, pretty=pretty) or _PRETTY


def discovery_content_type(representation: Representation) -> bytes:
    """The Content-Type of aggregated discovery: clients decide by it."""
    return representation.content_type + b";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_pretty(query: Mapping[str, Sequence[str]], user_agent: bytes | None) -> bool:
    """Whether JSON is indented: `?pretty` decides, else whether a person's tool asks."""
    values = query.get("pretty")
    if values and values[0]:
        return values[0] in {"1", "t", "T", "true", "TRUE", "True"}
    return user_agent is not None and user_agent.startswith(TOOLS_OF_PEOPLE)


def request_media(content_type: bytes | None, *, protobuf: bool = False) -> Media:
    """What a body is written in; JSON where the client does not say.

    Args:
        content_type: the header.
        protobuf: whether the expected object has such a form: typed kinds and options have, custom resources do not.

    Raises:
        StatusError: 415, with the media types that would do.
    """
    if not content_type or content_type == b"application/json":
        return "json"
    match media_type(content_type):
        case "application/json":
            return "json"
        case "application/yaml":
            return "yaml"
        case "application/vnd.kubernetes.protobuf":
            if protobuf:
                return "protobuf"
            # Upstream's server names what it then fails to read.
            raise unsupported_media_type(ACCEPTED[:-1])
        case _:
            raise unsupported_media_type(ACCEPTED)


_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_MEDIA_TYPE: Final = re.compile(rb"\s*(" + _TOKEN + rb"(?:/" + _TOKEN + rb")?)\s*(?=;|\Z)")
_PARAMETER: Final = re.compile(rb"\s*;\s*(" + _TOKEN + rb")\s*=\s*(?:" + _TOKEN + rb'|"(?:[^"\\\r\n]|\\.)*")')
_END: Final = re.compile(rb"\s*;?\s*")


def media_type(content_type: bytes) -> str:
    """The media type of a Content-Type, in lower case; empty where the header is malformed, as Go's `mime.ParseMediaType` sees it."""
    header = content_type[:_MAX_HEADER_BYTES]
    found = _MEDIA_TYPE.match(header)
    if found is None:
        return ""
    at = found.end()
    names: set[bytes] = set()
    while (parameter := _PARAMETER.match(header, at)) is not None:
        name = parameter[1].lower()
        if name in names:
            return ""
        names.add(name)
        at = parameter.end()
    return found[1].lower().decode() if _END.fullmatch(header, at) else ""


def _choose(  # noqa: PLR0917 # the cached twin takes positions only
    accept: bytes,
    pretty: bool,  # noqa: FBT001
    watch: bool,  # noqa: FBT001
    protobuf: bool,  # noqa: FBT001
    routed: bool,  # noqa: FBT001
    listed: bool,  # noqa: FBT001
) -> Representation:
    header = _text(accept)
    if routed and not names_any_of(header, ACCEPTED):
        available = (*ACCEPTED, *ACCEPTED_STREAMS) if listed else ACCEPTED
        message = f"406: Not Acceptable\n\nAvailable representations: {', '.join(available)}"
        raise StatusError(406, "NotAcceptable", message, details={})
    for clause in parse_accept(header):
        for media, subtype in _SUBTYPES.items():
            if not clause.includes(subtype) or not _may_stream(clause, media) or clause.parameters.get("sv", "v1") != "v1":
                continue
            transform, version = _transform_of(clause)
            if transform is None or (media == "protobuf" and (transform == "Table" or not (protobuf or transform))):
                continue
            if watch and media == "yaml":
                raise not_acceptable(ACCEPTED_STREAMS)
            return Representation(media, transform, version, _indented(clause, media, pretty=pretty))
    raise not_acceptable(ACCEPTED)


def _transform_of(clause: Clause) -> tuple[Transform | None, str]:
    parameters = clause.parameters
    if not ("as" in parameters or "g" in parameters or "v" in parameters):
        return "", ""
    version = parameters.get("v", "")
    if parameters.get("g") != "meta.k8s.io" or version not in _META_VERSIONS:
        return None, ""
    return _TRANSFORMS.get(parameters.get("as", "")), version


def _choose_discovery(accept: bytes, pretty: bool) -> Representation:  # noqa: FBT001 # the cached twin takes positions only
    for clause in parse_accept(_text(accept)):
        parameters = clause.parameters
        if (parameters.get("as"), parameters.get("g"), parameters.get("v")) != _DISCOVERY or "sv" in parameters:
            continue
        for media, subtype in _SUBTYPES.items():
            if clause.includes(subtype) and _may_stream(clause, media):
                return Representation(media, "APIGroupDiscoveryList", "v2", _indented(clause, media, pretty=pretty))
    return negotiate_document(accept, pretty=pretty)


def _document(accept: bytes | None, *, pretty: bool) -> Representation | None:
    if not accept or accept in PLAIN:
        return _PRETTY if pretty else DEFAULT
    for clause in parse_accept(_text(accept)):
        if not clause.parameters.keys().isdisjoint({"as", "g", "v", "sv"}):
            continue
        for media, subtype in _SUBTYPES.items():
            if clause.includes(subtype) and _may_stream(clause, media):
                return Representation(media, pretty=_indented(clause, media, pretty=pretty))
    return None


def _may_stream(clause: Clause, media: Media) -> bool:
    """Whether the stream that is asked for, if any, can be served in the media type."""
    stream = clause.parameters.get("stream")
    return stream is None or (stream == "watch" and media != "yaml")


def _indented(clause: Clause, media: Media, *, pretty: bool) -> bool:
    return media == "json" and (pretty or clause.parameters.get("pretty") == "1")


def _text(accept: bytes) -> str:
    return accept[:_MAX_HEADER_BYTES].decode("latin-1")


_choose_cached = lru_cache(maxsize=1024)(_choose)
_choose_discovery_cached = lru_cache(maxsize=256)(_choose_discovery)
