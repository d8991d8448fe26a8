"""Which representation a client gets and which one it sent (k8s.io/apiserver `endpoints/handlers/negotiation`).

Clauses of Accept are tried by quality, then in order. A clause that cannot be served (protobuf, CBOR, an unknown `as=`) is skipped; unknown
parameters such as `profile=` are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from kcp_py.apimachinery.errors import not_acceptable, unsupported_media_type

Media = Literal["json", "yaml"]
BodyMedia = Literal["json", "yaml", "protobuf"]
Transform = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList", "APIGroupDiscoveryList"]

ACCEPTED: Final = ("application/json", "application/yaml")
ACCEPTED_BODIES: Final = (*ACCEPTED, "application/vnd.kubernetes.protobuf")
"""Of kinds that clients have compiled in."""
ACCEPTED_STREAMS: Final = ("application/json;stream=watch",)
AGGREGATED_DISCOVERY: Final = b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""The Content-Type of aggregated discovery: clients decide by it."""

_MAX_HEADER_BYTES: Final = 8 * 1024
_MAX_CACHED_BYTES: Final = 512
_CONTENT_TYPES: Final[Mapping[str, bytes]] = {"json": b"application/json", "yaml": b"application/yaml"}


class Representation(NamedTuple):
    """How an answer is written."""

    media: Media = "json"
    transform: Transform = ""
    """What the object is turned into; empty for the object itself."""
    transform_version: str = ""
    """`v1` or `v1beta1` of meta.k8s.io, where there is a transform."""
    pretty: bool = False

    @property
    def content_type(self) -> bytes:
        return _CONTENT_TYPES[self.media]


DEFAULT: Final = Representation()
_PLAIN: Final = frozenset((b"*/*", b"application/json"))
_PRETTY: Final = Representation(pretty=True)

_TRANSFORMS: Final[Mapping[str, Transform]] = {
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
_META_VERSIONS: Final = frozenset(("v1", "v1beta1"))

Accepts = Callable[[str, str, str], Transform | None]
"""Kind, group and version of a clause to the transform, None where it cannot be served."""


def negotiate(accept: bytes | None, *, pretty: bool = False, watch: bool = False) -> Representation:
    """Choose the representation of a resource or a list; `watch` for a stream, which has no YAML form.

    Raises:
        StatusError: 406, nothing that the client accepts can be served.
    """
    if not accept or accept in _PLAIN:
        return _PRETTY if pretty else DEFAULT
    if len(accept) > _MAX_CACHED_BYTES:
        return _choose(accept, pretty, watch)
    return _choose_cached(accept, pretty, watch)


def negotiate_discovery(accept: bytes | None, *, pretty: bool = False) -> Representation:
    """Choose between the plain and the aggregated form of `/api` and `/apis`: transform `APIGroupDiscoveryList` or none.

    Raises:
        StatusError: 406, nothing that the client accepts can be served.
    """
    if not accept:
        return _PRETTY if pretty else DEFAULT
    if len(accept) > _MAX_CACHED_BYTES:
        return _choose_discovery(accept, pretty)
    return _choose_discovery_cached(accept, pretty)


def wants_pretty(query: Mapping[str, Sequence[str]], user_agent: bytes | None) -> bool:
    """Whether JSON is indented: `?pretty` decides, else whether a person's tool asks."""
    values = query.get("pretty")
    if values and values[0]:
        return values[0] in {"1", "t", "T", "true", "TRUE", "True"}
    return user_agent is not None and user_agent.startswith((b"curl", b"Wget", b"Mozilla/5.0"))


def request_media(content_type: bytes | None, *, protobuf: bool = False) -> BodyMedia:
    """What a body is written in; JSON where the client does not say.

    Args:
        content_type: the header.
        protobuf: whether what is expected has such a form: built-in kinds and options have, custom resources do not.

    Raises:
        StatusError: 415, with the media types that would do.
    """
    if not content_type or content_type == b"application/json":
        return "json"
    match content_type.partition(b";")[0].strip().lower():
        case b"application/json":
            return "json"
        case b"application/yaml":
            return "yaml"
        case b"application/vnd.kubernetes.protobuf" if protobuf:
            return "protobuf"
        case _:
            raise unsupported_media_type(ACCEPTED_BODIES if protobuf else ACCEPTED)


class _Clause(NamedTuple):
    media_type: str
    parameters: Mapping[str, str]
    quality: float


def _clauses(accept: bytes) -> list[_Clause]:
    """The clauses, best first; equal ones keep their order, wildcards come after what is named."""
    found = list(_parse(accept[:_MAX_HEADER_BYTES].decode("latin-1")))
    found.sort(key=lambda clause: (-clause.quality, clause.media_type.count("*")))
    return found


def _parse(header: str) -> Iterator[_Clause]:
    for text in header.split(","):
        media_type, *pairs = text.split(";")
        quality = 1.0
        parameters: dict[str, str] = {}
        for pair in pairs:
            name, _, value = pair.partition("=")
            name, value = name.strip().lower(), value.strip().strip('"')
            if name == "q":
                quality = _quality(value)
            else:
                parameters[name] = value
        if quality > 0 and media_type.strip():
            yield _Clause(media_type.strip().lower(), parameters, quality)


def _quality(text: str) -> float:
    try:
        quality = float(text)
    except ValueError:
        return 0.0
    return min(quality, 1.0) if quality > 0 else 0.0


def _medias(media_type: str) -> tuple[Media, ...]:
    match media_type:
        case "application/json":
            return ("json",)
        case "application/yaml":
            return ("yaml",)
        case "*/*" | "application/*":
            return ("json", "yaml")
        case _:
            return ()


def _select(accept: bytes, accepts: Accepts, *, pretty: bool, watch: bool) -> Representation:
    for clause in _clauses(accept):
        parameters = clause.parameters
        if parameters.get("sv") or parameters.get("stream", "") not in {"", "watch"}:
            continue
        transform: Transform = ""
        version = ""
        if "as" in parameters or "g" in parameters or "v" in parameters:
            version = parameters.get("v", "")
            accepted = accepts(parameters.get("as", ""), parameters.get("g", ""), version)
            if accepted is None:
                continue
            transform = accepted
        for media in _medias(clause.media_type):
            if (watch and media == "yaml") or (transform == "APIGroupDiscoveryList" and media != "json"):
                continue
            return Representation(media, transform, version, pretty or parameters.get("pretty") == "1")
    raise not_acceptable(ACCEPTED_STREAMS if watch else ACCEPTED)


def _resource_transform(kind: str, group: str, version: str) -> Transform | None:
    return _TRANSFORMS.get(kind) if group == "meta.k8s.io" and version in _META_VERSIONS else None


def _discovery_transform(kind: str, group: str, version: str) -> Transform | None:
    return "APIGroupDiscoveryList" if (kind, group, version) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") else None


def _choose(accept: bytes, pretty: bool, watch: bool) -> Representation:  # noqa: FBT001 # the cached twin takes positions only
    return _select(accept, _resource_transform, pretty=pretty, watch=watch)


def _choose_discovery(accept: bytes, pretty: bool) -> Representation:  # noqa: FBT001 # the cached twin takes positions only
    return _select(accept, _discovery_transform, pretty=pretty, watch=False)


_choose_cached = lru_cache(maxsize=1024)(_choose)
_choose_discovery_cached = lru_cache(maxsize=256)(_choose_discovery)
