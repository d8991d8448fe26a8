"""The paths of a resource and the operations on them, in a form from which both versions of OpenAPI are written.

What clients look for: `x-kubernetes-action`, `x-kubernetes-group-version-kind`, the media types of PATCH, and the query parameters
`dryRun`, `fieldManager` and `fieldValidation`: with the latter, kubectl leaves validation to the server. Texts that no client shows are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kcp_py.schema.publish.kinds import META, PublishedKind, PublishedSubresource


class Parameter(NamedTuple):
    """A parameter in the path or the query."""

    name: str
    type: str
    place: str = "query"


_NAME: Final = Parameter("name", "string", "path")
_NAMESPACE: Final = Parameter("namespace", "string", "path")
_PRETTY: Final = Parameter("pretty", "string")
_WRITE: Final = (Parameter("dryRun", "string"), Parameter("fieldManager", "string"), Parameter("fieldValidation", "string"))
_PATCH: Final = (*_WRITE, Parameter("force", "boolean"))
_LIST: Final = (
    Parameter("allowWatchBookmarks", "boolean"),
    Parameter("continue", "string"),
    Parameter("fieldSelector", "string"),
    Parameter("labelSelector", "string"),
    Parameter("limit", "integer"),
    Parameter("resourceVersion", "string"),
    Parameter("resourceVersionMatch", "string"),
    Parameter("sendInitialEvents", "boolean"),
    Parameter("timeoutSeconds", "integer"),
    Parameter("watch", "boolean"),
)
_DELETE: Final = (
    Parameter("dryRun", "string"),
    Parameter("gracePeriodSeconds", "integer"),
    Parameter("orphanDependents", "boolean"),
    Parameter("propagationPolicy", "string"),
)
_DELETE_COLLECTION: Final = (
    Parameter("continue", "string"),
    Parameter("dryRun", "string"),
    Parameter("fieldSelector", "string"),
    Parameter("gracePeriodSeconds", "integer"),
    Parameter("labelSelector", "string"),
    Parameter("limit", "integer"),
    Parameter("orphanDependents", "boolean"),
    Parameter("propagationPolicy", "string"),
    Parameter("resourceVersion", "string"),
    Parameter("resourceVersionMatch", "string"),
    Parameter("sendInitialEvents", "boolean"),
    Parameter("timeoutSeconds", "integer"),
)

DELETE_OPTIONS: Final = META + "DeleteOptions"
PATCH: Final = META + "Patch"
STATUS: Final = META + "Status"


class Operation(NamedTuple):
    """One method on one path."""

    method: str
    action: str
    """`x-kubernetes-action`: get, list, post, put, patch, delete, deletecollection."""
    operation_id: str
    summary: str
    parameters: Sequence[Parameter]
    codes: Sequence[str]
    """The codes of success."""
    answer: str
    """The model that is answered."""
    body: str = ""
    """The model that is sent."""
    body_types: Sequence[str] = ()
    watchable: bool = False
    group_version_kind: Mapping[str, str] | None = None
    """`x-kubernetes-group-version-kind`; None for that of the resource."""


class PathItem(NamedTuple):
    """One path with what can be done there."""

    path: str
    parameters: Sequence[Parameter]
    operations: Sequence[Operation]


BODY_TYPES: Final = ("application/json", "application/yaml")


def path_items(kind: PublishedKind) -> Iterator[PathItem]:
    """Every path of the resource at which one of its verbs is served."""
    scope = f"{kind.root}/namespaces/{{namespace}}" if kind.namespaced else kind.root
    common = (_NAMESPACE, _PRETTY) if kind.namespaced else (_PRETTY,)
    collection = f"{scope}/{kind.plural}"
    yield from _item(collection, common, _on_collection(kind))
    yield from _item(f"{collection}/{{name}}", (_NAME, *common), _on_object(kind))
    for subresource in kind.subresources:
        yield from _item(f"{collection}/{{name}}/{subresource.name}", (_NAME, *common), _on_subresource(kind, subresource))
    if kind.namespaced and "list" in kind.verbs:
        every = Operation(
            "get",
            "list",
            f"list{kind.operation_infix}{kind.kind}ForAllNamespaces",
            f"list objects of kind {kind.kind}",
            (),
            ("200",),
            kind.list_model,
            watchable=True,
        )
        yield PathItem(f"{kind.root}/{kind.plural}", (*_LIST, _PRETTY), (every,))


def _item(path: str, parameters: Sequence[Parameter], operations: Iterator[Operation]) -> Iterator[PathItem]:
    if found := tuple(operations):
        yield PathItem(path, parameters, found)


def _on_collection(kind: PublishedKind) -> Iterator[Operation]:
    name, infix = _scoped_name(kind), kind.operation_infix
    if "deletecollection" in kind.verbs:
        yield Operation(
            "delete",
            "deletecollection",
            f"delete{infix}Collection{name}",
            f"delete collection of {kind.kind}",
            _DELETE_COLLECTION,
            ("200",),
            STATUS,
            DELETE_OPTIONS,
            BODY_TYPES,
        )
    if "list" in kind.verbs:
        yield Operation(
            "get",
            "list",
            f"list{infix}{name}",
            f"list objects of kind {kind.kind}",
            _LIST,
            ("200",),
            kind.list_model,
            watchable=True,
        )
    if "create" in kind.verbs:
        yield Operation(
            "post",
            "post",
            f"create{infix}{name}",
            f"create a {kind.kind}",
            _WRITE,
            ("200", "201", "202"),
            kind.model,
            kind.model,
            BODY_TYPES,
        )


def _on_object(kind: PublishedKind) -> Iterator[Operation]:
    name, infix = _scoped_name(kind), kind.operation_infix
    if "delete" in kind.verbs:
        yield Operation(
            "delete",
            "delete",
            f"delete{infix}{name}",
            f"delete a {kind.kind}",
            _DELETE,
            ("200", "202"),
            STATUS,
            DELETE_OPTIONS,
            BODY_TYPES,
        )
    yield from _reads_and_updates(kind.verbs, f"{infix}{name}", f"the specified {kind.kind}", kind.model, kind.patch_types)


def _on_subresource(kind: PublishedKind, subresource: PublishedSubresource) -> Iterator[Operation]:
    name, model = subresource.name, subresource.model or kind.model
    suffix = f"{kind.operation_infix}{_scoped_name(kind)}{name[:1].upper()}{name[1:]}"
    found = list(_reads_and_updates(subresource.verbs, suffix, f"{name} of the specified {kind.kind}", model, kind.patch_types))
    if "delete" in subresource.verbs:
        text = f"delete {name} of a {kind.kind}"
        found.append(Operation("delete", "delete", f"delete{suffix}", text, _DELETE, ("200", "202"), STATUS, DELETE_OPTIONS, BODY_TYPES))
    if "create" in subresource.verbs:
        text = f"create {name} of a {kind.kind}"
        found.append(Operation("post", "post", f"create{suffix}", text, _WRITE, ("200", "201", "202"), model, model, BODY_TYPES))
    for operation in found:
        yield operation._replace(group_version_kind=subresource.group_version_kind)


def _reads_and_updates(verbs: Sequence[str], suffix: str, what: str, model: str, patch_types: Sequence[str]) -> Iterator[Operation]:
    if "get" in verbs:
        yield Operation("get", "get", f"read{suffix}", f"read {what}", (), ("200",), model)
    if "patch" in verbs:
        yield Operation(
            "patch",
            "patch",
            f"patch{suffix}",
            f"partially update {what}",
            _PATCH,
            ("200", "201"),
            model,
            PATCH,
            patch_types,
        )
    if "update" in verbs:
        yield Operation(
            "put",
            "put",
            f"replace{suffix}",
            f"replace {what}",
            _WRITE,
            ("200", "201"),
            model,
            model,
            BODY_TYPES,
        )


def _scoped_name(kind: PublishedKind) -> str:
    return f"Namespaced{kind.kind}" if kind.namespaced else kind.kind
