"""`resource`: a Pydantic model or a dataclass as a resource, or as a further version of one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Required, TypedDict, TypeVar, cast

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.library.types.columns import Column
from kcp_py.library.types.conversion import HubConverter
from kcp_py.library.types.described import ATTRIBUTE, HOOKS, TypedResource, typed_resource
from kcp_py.library.types.fields import DefinitionError, is_structure
from kcp_py.library.types.hooks import HookStrategy
from kcp_py.registry.stored import StoredResource, StoredVersion
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.crd.validation import initial_status, validate_crd

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


class ResourceSettings(TypedDict, total=False):
    """The arguments of `resource`."""

    group: str
    version: Required[str]
    hub: type | None
    kind: str
    plural: str
    singular: str
    list_kind: str
    scope: Literal["Namespaced", "Cluster"]
    short_names: Sequence[str]
    categories: Sequence[str]
    columns: Sequence[Column | str]
    selectable_fields: Sequence[str]
    status: bool | None
    scale: Mapping[str, str] | None
    strategy: Strategy | None
    storage: bool
    served: bool
    deprecated: bool | str
    camel_case: bool | None


def resource(
    *,
    group: str = "",
    version: str,
    hub: type | None = None,
    kind: str = "",
    plural: str = "",
    singular: str = "",
    list_kind: str = "",
    scope: Literal["Namespaced", "Cluster"] = "Namespaced",
    short_names: Sequence[str] = (),
    categories: Sequence[str] = (),
    columns: Sequence[Column | str] = (),
    selectable_fields: Sequence[str] = (),
    status: bool | None = None,
    scale: Mapping[str, str] | None = None,
    strategy: Strategy | None = None,
    storage: bool = False,
    served: bool = True,
    deprecated: bool | str = False,
    camel_case: bool | None = None,
) -> Callable[[C], C]:
    """Have a Pydantic model or a dataclass describe a resource, or with `hub` a further version of one.

    The fields of the class are those of the object, such as `spec` and `status`; `metadata: ObjectMeta` may be left out. The class gets the
    attribute `__resource__`, and stays as it is otherwise. `ControlPlane(apis=[Foo])` and `control_plane.add(Foo)` serve it.

    Args:
        group: the API group; that of `hub` by default.
        version: such as `v1`.
        hub: the class of which this is a further version. It says everything but what follows from `columns` on.
        kind: by default the name of the class.
        plural: by default the kind in lower case, with an `s`.
        singular: by default the kind in lower case.
        list_kind: by default the kind with `List`.
        scope: `Namespaced` or `Cluster`.
        short_names: for kubectl.
        categories: such as `all`.
        columns: of `kubectl get`, as paths or objects of `Column`; by default name and age.
        selectable_fields: paths that field selectors may name, such as `.spec.colour`.
        status: whether `/status` is served; by default, whether there is a field `status`.
        scale: the paths of `/scale`: `specReplicasPath`, `statusReplicasPath`, `labelSelectorPath`.
        strategy: rules for decoded objects, instead of hooks.
        storage: whether objects are stored in this version; by default they are stored in that of the hub.
        served: whether clients can use the version.
        deprecated: whether answers warn of the version, or the text of the warning.
        camel_case: whether `replica_count` is `replicaCount` in JSON, here and in the classes of the fields; aliases have precedence. By
            default as of `hub`, and False without one.

    Raises:
        DefinitionError: the class cannot be a resource. The message begins with the class and the field.
    """

    def describe(cls: C) -> C:
        place = getattr(cls, "__name__", repr(cls))
        if not is_structure(cls):
            raise DefinitionError(f"{place}: a resource is a Pydantic model or a dataclass; put @dataclass below @resource")
        parent = None if hub is None else _hub_of(hub, place)
        if parent is None and not group:
            raise DefinitionError(f"{place}: a resource has a group, such as example.com")
        if parent is not None and group not in {"", parent.group}:
            raise DefinitionError(f"{place}: its group is {group}, and that of its hub {parent.group}")
        if scope not in {"Namespaced", "Cluster"}:
            raise DefinitionError(f"{place}: the scope is Namespaced or Cluster, not {scope!r}")
        _check_lists(place, short_names=short_names, categories=categories, columns=columns, selectable_fields=selectable_fields)
        own_kind = kind or (parent.kind if parent is not None else place)
        described = TypedResource(
            cls,
            group=parent.group if parent is not None else group,
            version=version,
            kind=own_kind,
            plural=parent.plural if parent is not None else plural or default_plural(own_kind),
            hub=parent,
            singular=singular,
            list_kind=list_kind,
            scope=("Namespaced" if parent.namespaced else "Cluster") if parent is not None else scope,
            short_names=short_names,
            categories=categories,
            columns=columns,
            selectable_fields=selectable_fields,
            status=status,
            scale=scale,
            strategy=strategy,
            storage=storage,
            served=served,
            deprecated=deprecated,
            camel_case=camel_case if camel_case is not None else parent is not None and parent.camel_case,
        )
        _check(described)
        _check_definition(described)
        if parent is not None:
            parent.spokes.append(described)
        setattr(cls, ATTRIBUTE, described)
        return cls

    return describe


def stored_resource(cls: type) -> StoredResource:
    """The resource of a class with all of its versions. The class may be any of them.

    Raises:
        DefinitionError: it was not decorated with `resource`, or the versions do not fit together.
    """
    described = typed_resource(cls)
    hub = described.hub or described
    storage = [one for one in hub.versions if one.storage] or [hub]
    if len(storage) > 1:
        raise DefinitionError(f"{storage[1].place}: {storage[0].version} is the stored version already")
    own = _version(hub)
    return StoredResource(
        group=hub.group,
        version=hub.version,
        resource=hub.plural,
        kind=hub.kind,
        schema=hub.schema,
        strategy=own.strategy,
        singular=hub.singular,
        namespaced=hub.namespaced,
        columns=hub.columns,
        short_names=hub.short_names,
        categories=hub.categories,
        selectable_fields=hub.selectable_fields,
        status=hub.status,
        scale=hub.scale,
        list_kind=hub.list_kind,
        served_version=hub.served,
        deprecated=own.deprecated,
        deprecation_warning=own.deprecation_warning,
        versions=[_version(one) for one in hub.spokes],
        storage_version=storage[0].version,
        converter=HubConverter(hub) if any(one.converts for one in hub.spokes) else None,
    )


def _version(described: TypedResource) -> StoredVersion:
    strategy = described.strategy
    if strategy is None:
        hooks = HookStrategy(described, described.hub if described.converts else None)
        strategy = hooks if hooks.does_anything else None
    return StoredVersion(
        version=described.version,
        schema=described.schema,
        strategy=strategy,
        columns=described.columns,
        selectable_fields=described.selectable_fields,
        status=described.status,
        scale=described.scale,
        served=described.served,
        deprecated=bool(described.deprecated),
        deprecation_warning=described.deprecated if isinstance(described.deprecated, str) else "",
    )


def hook(cls: type, name: str = "") -> Callable[[F], F]:
    """Make a function a hook of a resource, as a method of the class with that name would be.

    ::

        @hook(Foo)
        def validate_create(foo: Foo) -> str | None: ...

    Args:
        cls: a class with `@resource`.
        name: of the hook; by default that of the function.

    Raises:
        DefinitionError: there is no hook of that name, it is a coroutine function, or it does not take what hooks of that name get.
    """
    described = typed_resource(cls)

    def add(function: F) -> F:
        found = name or function.__name__
        if found not in HOOKS:
            raise DefinitionError(f"{described.place}: there is no hook {found}; there are {', '.join(HOOKS)}")
        _check_plain(function, f"{described.place}.{found}")
        _check_parameters(function, found, f"{described.place}.{found}")
        described.functions.setdefault(found, []).append(function)
        return function

    return add


def _check_lists(place: str, **given: object) -> None:
    """A text is a sequence, too, of which each letter would be a name."""
    for name, value in given.items():
        if isinstance(value, str):
            raise DefinitionError(f"{place}: {name} is a list of texts, and not a text: {name}=[{value!r}]")
        if not isinstance(value, Sequence):
            raise DefinitionError(f"{place}: {name} is a list, and not a {type(value).__name__}")


def _hub_of(hub: type, place: str) -> TypedResource:
    parent = typed_resource(hub)
    if parent.hub is not None:
        raise DefinitionError(f"{place}: its hub {parent.place} is a further version itself; the hub is {parent.hub.place}")
    return parent


def _check(described: TypedResource) -> None:
    place, model = described.place, cast("Any", described.model)
    if getattr(model, "model_config", {}).get("extra") == "forbid":
        raise DefinitionError(f'{place}: extra="forbid" refuses apiVersion, kind and metadata; unknown fields are removed without it')
    scale: Any = described.scale
    if scale is not None and not (isinstance(scale, Mapping) and {"specReplicasPath", "statusReplicasPath"} <= scale.keys()):
        example = '{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}'
        raise DefinitionError(f"{place}: scale has the paths specReplicasPath and statusReplicasPath: scale={example}")
    for name in HOOKS:
        for function in described.hooks(name):
            _check_plain(function, f"{place}.{name}")
            _check_parameters(function, name, f"{place}.{name}")
    if described.hub is None:
        return
    if any(one.version == described.version for one in described.versions):
        raise DefinitionError(f"{place}: the resource has a version {described.version} already")
    conversions = [name for name in ("convert_to", "convert_from") if hasattr(model, name)]
    if len(conversions) == 1:
        missing = "convert_from" if conversions == ["convert_to"] else "convert_to"
        raise DefinitionError(f"{place}: it has {conversions[0]}, but no {missing}")
    for name in conversions:
        _check_plain(getattr(model, name), f"{place}.{name}")
    if conversions and not inspect.ismethod(model.convert_from):
        raise DefinitionError(f"{place}.convert_from: it is a class method that takes the hub: put @classmethod above it")


def _check_definition(described: TypedResource) -> None:
    """Whether a server would take the CRD of a version, alone."""
    own = _version(described)
    alone = StoredResource(
        group=described.group,
        version=described.version,
        resource=described.plural,
        kind=described.kind,
        schema=described.schema,
        singular=described.singular,
        list_kind=described.list_kind,
        namespaced=described.namespaced,
        columns=own.columns,
        short_names=described.short_names,
        categories=described.categories,
        selectable_fields=own.selectable_fields,
        status=own.status,
        scale=own.scale,
    )
    crd = alone.definition()
    # The annotation is for people who review definitions of Kubernetes' own groups. Classes of clients have such groups, too.
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved", **crd["metadata"].get("annotations", {})}
    if problems := validate_crd({**crd, "status": initial_status(crd)}):
        raise DefinitionError(f"{described.place}: {aggregate(problems)}")


def _check_plain(function: Any, place: str) -> None:
    if not callable(function):
        raise DefinitionError(f"{place}: it is not a function")
    if inspect.iscoroutinefunction(function):
        raise DefinitionError(
            f"{place}: it is a coroutine function; a hook runs inside of a write, use @control_plane.mutating or validating"
        )


_OF_UPDATES: Final = frozenset({"prepare_for_update", "validate_update", "validate_status_update", "warnings"})
"""The hooks that get the old object as well."""


def _check_parameters(function: Any, name: str, place: str) -> None:
    arguments = ("self", "old") if name in _OF_UPDATES else ("self",)
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        raise DefinitionError(f"{place}: it is called as {name}({', '.join(arguments)}), which its parameters do not take") from None
    except ValueError:
        return  # a function of C, which does not tell


def default_plural(kind: str) -> str:
    """The plural of a resource whose class does not say one."""
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"
