"""What expressions of admission policies and of match conditions may use: variables with their types, and libraries.

Source: k8s.io/apiserver `pkg/admission/plugin/cel/compile.go`, `pkg/cel/mutation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

from kcp_py.cel.declarations import Library
from kcp_py.cel.environment import Environment
from kcp_py.cel.libraries.authz import AUTHORIZER, AUTHZ, RESOURCE_CHECK
from kcp_py.cel.libraries.jsonpatch import JSONPATCH
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of

OBJECT: Final = "Object"
"""The type of the values that an apply configuration makes."""
JSON_PATCH: Final = "JSONPatch"


class Declared(NamedTuple):
    """What an expression may use besides `object`, `oldObject`, `request` and `namespaceObject`."""

    params: bool = False
    authorizer: bool = True
    patch_types: bool = False


def _object(title: str, /, **fields: Type) -> Type:
    return object_of(f"kubernetes.{title}", {field: Field(kind, field) for field, kind in fields.items()})


_STRINGS: Final = list_of(STRING)
_KIND: Final = _object("GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_RESOURCE: Final = _object("GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_REQUEST: Final = _object(
    "AdmissionRequest",
    kind=_KIND,
    resource=_RESOURCE,
    subResource=STRING,
    requestKind=_KIND,
    requestResource=_RESOURCE,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_object("UserInfo", username=STRING, uid=STRING, groups=_STRINGS, extra=map_of(STRING, _STRINGS)),
    dryRun=BOOL,
    options=DYN,
)
_CONDITION: Final = _object("NamespaceCondition", status=STRING, type=STRING, lastTransitionTime=TIMESTAMP, message=STRING, reason=STRING)
_NAMESPACE: Final = _object(
    "Namespace",
    metadata=_object(
        "NamespaceMetadata",
        name=STRING,
        generateName=STRING,
        namespace=STRING,
        labels=map_of(STRING, STRING),
        annotations=map_of(STRING, STRING),
        UID=STRING,
        creationTimestamp=TIMESTAMP,
        deletionGracePeriodSeconds=INT,
        deletionTimestamp=TIMESTAMP,
        generation=INT,
        resourceVersion=STRING,
        finalizers=_STRINGS,
    ),
    spec=_object("NamespaceSpec", finalizers=_STRINGS),
    status=_object("NamespaceStatus", conditions=list_of(_CONDITION), phase=STRING),
)


class _AnyField(Mapping[str, Field]):
    """The fields of an object without a schema: every name, of any type."""

    def __getitem__(self, name: str) -> Field:
        return Field(DYN, name)

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str)

    def __bool__(self) -> bool:
        return True


class _PatchTypes(Mapping[str, Type]):
    """The names of types in mutations: `JSONPatch`, `Object`, and `Object.spec` for the field `spec` of an `Object`."""

    def __init__(self, types: Mapping[str, Type]) -> None:
        self._types = types
        patch = {"op": STRING, "path": STRING, "from": STRING, "value": DYN}
        self._patch = object_of(JSON_PATCH, {name: Field(kind, name) for name, kind in patch.items()})

    def __getitem__(self, name: str) -> Type:
        if name == JSON_PATCH:
            return self._patch
        if name == OBJECT or name.startswith(f"{OBJECT}."):
            return object_of(name, _AnyField())
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


_LIBRARIES: Final[tuple[Library, ...]] = (*KUBERNETES, AUTHZ)


@cache
def environment_of(declared: Declared) -> Environment:
    """The environment of expressions without variables of a policy. Shared, because its tables are large."""
    variables = {"object": DYN, "oldObject": DYN, "namespaceObject": _NAMESPACE, "request": _REQUEST}
    if declared.params:
        variables["params"] = DYN
    if declared.authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    environment = _libraries(patch_types=declared.patch_types).with_variables(variables)
    if declared.patch_types:
        environment.types = _PatchTypes(environment.types)
    return environment


@cache
def _libraries(*, patch_types: bool) -> Environment:
    return Environment({}, (*_LIBRARIES, JSONPATCH) if patch_types else _LIBRARIES)


def with_composed(environment: Environment, composed: Mapping[str, Type]) -> Environment:
    """An environment whose variable `variables` has the given fields: the variables of a policy and their types."""
    kind = object_of("kubernetes.variables", {name: Field(_plain(of), name) for name, of in composed.items()})
    return environment.with_variables({**environment.variables, "variables": kind})


_SCALARS: Final = frozenset({"bool", "bytes", "double", "duration", "int", "null", "string", "timestamp", "uint"})


def _plain(kind: Type) -> Type:
    """The type of a variable as other expressions see it (`convertCelTypeToDeclType`): objects and opaque values are of any type."""
    if kind.kind in _SCALARS:
        return kind
    if kind.kind == "list":
        return list_of(_plain(kind.element))
    if kind.kind == "map":
        return map_of(_plain(kind.key), _plain(kind.value))
    return DYN
