"""`parse_read`: which requests a cache of whole resources can answer. Pure.

All others are passed on: subresources, selectors of fields that only the API server knows, tables, protobuf, pages that another page began.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qsl

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.fieldselectors import parse_field_selector
from kcp_py.apimachinery.meta.selectors import LabelSelector, parse_label_selector

Form = Literal["object", "metadata"]
"""Whole objects, or `PartialObjectMetadata`."""
Verb = Literal["get", "list", "watch"]

_PATH: Final = re.compile(
    r"(?P<prefix>/clusters/[A-Za-z0-9:-]+)?"
    r"(?P<root>/api/(?P<core>[a-z0-9]+)|/apis/(?P<group>[a-z0-9.-]+)/(?P<version>[a-z0-9]+))"
    r"(?:/namespaces/(?P<namespace>[a-z0-9-]+))?/(?P<resource>[a-z0-9-]+)(?:/(?P<name>[A-Za-z0-9._:-]+))?"
)
_PARAMETERS: Final = frozenset((
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch",
    "sendInitialEvents", "timeoutSeconds", "timeout", "watch",
))  # fmt: skip
_NOT_RESOURCES: Final = frozenset(("watch", "proxy"))
_OF_NAMESPACES: Final = frozenset(("status", "finalize"))
_METADATA: Final = frozenset(("PartialObjectMetadata", "PartialObjectMetadataList"))
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FLAGS: Final = ("watch", "sendInitialEvents", "allowWatchBookmarks")
_FALSE: Final = frozenset(("0", "false", "FALSE", "False"))
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


class Place(NamedTuple):
    """A resource of one logical cluster, which is cached as a whole."""

    prefix: str
    """`/clusters/NAME`; empty for a server without logical clusters, or for its default one."""
    group: str
    version: str
    resource: str

    @property
    def path(self) -> str:
        """Of the collection over all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{self.prefix}{root}/{self.resource}"

    @property
    def of_all_versions(self) -> Place:
        """The resource without its version: the objects are those of all versions."""
        return self._replace(version="")


class Read(NamedTuple):
    """A read as the cache understands it."""

    verb: Verb
    place: Place
    namespace: str
    name: str
    """Of the object, also where a field selector names it."""
    form: Form
    labels: LabelSelector
    version: str
    """`resourceVersion`; empty for the newest one."""
    limit: int
    initial_events: bool | None
    """`sendInitialEvents`; None where it is not given."""
    bookmarks: bool
    seconds: int
    """`timeoutSeconds`; 0 where it is not given."""


def parse_place(path: str) -> tuple[Place, str, str] | None:
    """The resource that a path is about, the namespace and the name; None for other paths, also those of subresources."""
    found = _PATH.fullmatch(path)
    if found is None or found["resource"] in _NOT_RESOURCES or found["prefix"] == "/clusters/":
        return None
    if found["namespace"] and not found["name"] and found["resource"] in _OF_NAMESPACES and found["core"]:
        return None
    place = Place(found["prefix"] or "", found["group"] or "", found["core"] or found["version"], found["resource"])
    return place, found["namespace"] or "", found["name"] or ""


def parse_read(path: str, query: str, accept: str) -> Read | None:
    """A GET as the cache understands it; None where it does not.

    Args:
        path: as sent, with the prefix of a logical cluster.
        query: as sent.
        accept: the header; empty for none.
    """
    target, form = parse_place(path), form_of(accept)
    if target is None or form is None:
        return None
    place, namespace, name = target
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        return None
    values = dict(given)
    if len(values) != len(given) or not values.keys() <= _PARAMETERS or values.get("continue"):
        return None
    if any(values.get(key, "0") not in _TRUE | _FALSE for key in _FLAGS):
        return None
    flags = {key: values[key] in _TRUE if key in values else None for key in _FLAGS}
    version, match = values.get("resourceVersion", ""), values.get("resourceVersionMatch", "")
    verb: Verb = "get" if name else "watch" if flags["watch"] else "list"
    if match not in {"", "NotOlderThan"} or (version and not _NUMBER.fullmatch(version)):
        return None
    if not _is_valid(verb, version, match, initial_events=flags["sendInitialEvents"]):
        return None
    selected = _selected(values.get("fieldSelector", ""), namespace)
    if selected is None or (name and (flags["watch"] or selected != (namespace, ""))):
        return None
    try:
        labels = parse_label_selector(values.get("labelSelector", ""))
    except (StatusError, ValueError):
        return None
    numbers = {key: values.get(key) or "0" for key in ("limit", "timeoutSeconds")}
    if not all(_NUMBER.fullmatch(text) for text in numbers.values()):
        return None
    if name and not labels.empty:
        return None
    if verb == "list" and int(numbers["limit"]) and version not in {"", "0"} and not match:
        # The page is one of exactly this version.
        return None
    return Read(
        verb,
        place,
        selected[0],
        name or selected[1],
        form,
        labels,
        version,
        int(numbers["limit"]),
        flags["sendInitialEvents"],
        flags["allowWatchBookmarks"] is True,
        int(numbers["timeoutSeconds"]),
    )


def _is_valid(verb: Verb, version: str, match: str, *, initial_events: bool | None) -> bool:
    """Whether options fit together (apimachinery `internalversion/validation`). The API server refuses others."""
    if verb == "watch":
        return (initial_events is None) == (not match)
    return verb == "get" or (initial_events is None and bool(version or not match))


def form_of(accept: str, *, offline: bool = False) -> Form | None:
    """The form of an answer in JSON that an `Accept` header takes; None where it prefers one that only the API server can make.

    JSON in the place of protobuf is as good, if the client takes both. In the place of a table it is not, unless there is no server.
    """
    for one in accept.split(",") if accept else ("*/*",):
        media, *parameters = (part.strip() for part in one.split(";"))
        options = dict(part.partition("=")[::2] for part in parameters)
        if media == "application/vnd.kubernetes.protobuf" and "as" not in options:
            continue
        if media in {"application/json", "application/*", "*/*"}:
            kind = options.get("as", "")
            if not kind:
                return "object"
            if kind in _METADATA and options.get("g") == "meta.k8s.io" and options.get("v") == "v1":
                return "metadata"
        if not offline:
            return None
    return None


def _selected(text: str, namespace: str) -> tuple[str, str] | None:
    """Namespace and name that a field selector leaves; None for other fields and operators."""
    name = ""
    if not text:
        return namespace, name
    try:
        selector = parse_field_selector(text)
    except (StatusError, ValueError):
        return None
    for requirement in selector.requirements:
        if requirement.operator not in {"=", "=="}:
            return None
        if requirement.field == "metadata.name" and requirement.value and name in {"", requirement.value}:
            name = requirement.value
        elif requirement.field == "metadata.namespace" and requirement.value and namespace in {"", requirement.value}:
            namespace = requirement.value
        else:
            return None
    return namespace, name
