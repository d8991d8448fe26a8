"""What admission is: the write that it sees, and what a plugin can do with it.

Source: k8s.io/apiserver `pkg/admission` (`Attributes`, `MutationInterface`, `ValidationInterface`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping, Sequence
from typing import Any, ClassVar, Final, Literal, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.apimachinery.meta.objectmeta import prune_object_meta, type_problem
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.writerequest import WriteOptions, WriteRequest
from kcp_py.request.user import UserInfo
from kcp_py.schema.structural.default import MAX_FILLED, TooManyDefaultsError
from kcp_py.schema.structural.embedded import metadata_mistake
from kcp_py.storage.contract import Compare

_SERVER_METADATA: Final = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""What no request sets, and no plugin."""

_NAMESPACES: Final = GroupResource("", "namespaces")

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
"""`CONNECT`: the request for a connection to an object, such as `pods/exec`, which stores nothing."""
OPERATIONS: Final[tuple[Operation, ...]] = ("CREATE", "UPDATE", "DELETE")
"""Those that write, which plugins ask for where they do not say otherwise."""

_KEPT: Final = 2048
"""For so many combinations of operation, cluster and resource the steps are kept."""


class Reinvocation:
    """Whether the mutating plugins of a write are called a second time, as upstream (`pkg/admission/reinvocation.go`).

    Attributes:
        again: whether this is the second time.
        needed: set by plugins that changed the object after others had seen it.
        size: bytes of the object where a plugin may have made it much larger than the request, else 0.
        state: what plugins keep from the first time for the second one, by their names.
    """

    __slots__ = ("again", "needed", "size", "state")

    def __init__(self) -> None:
        self.again = False
        self.needed = False
        self.size = 0
        self.state: dict[str, object] = {}


class Attributes(NamedTuple):
    """One write as plugins see it."""

    operation: Operation
    request: WriteRequest
    namespace: str
    """Empty for cluster-scoped objects, except that a Namespace has its own name here, as upstream."""
    name: str
    """Of the object; a create may just have generated it."""
    obj: dict[str, Any] | None
    """The new object in the served version; None for a deletion. Mutating plugins change it in place.

    Name and namespace must stay. What only the server sets is put back: uid, timestamps, generation, the status in a write of the object,
    and everything but the status in a write of the status of a custom resource.
    """
    old: dict[str, Any] | None
    """The object before the write; None for a create, and where the class of a computed resource does not tell it. Must not be changed."""
    compares: list[Compare]
    """Conditions of the transaction that stores the write. Plugins append those under which their decision holds."""
    reinvocation: Reinvocation
    resource_version: str = ""
    """Of the object before the write; empty for a create, and where it is not known."""

    @property
    def user(self) -> UserInfo:
        """Who makes the write. Namespace deletion and garbage collection write as their controllers' accounts."""
        return self.request.context.user

    @property
    def resource(self) -> ServedResource:
        return self.request.target.served.resource

    @property
    def kind(self) -> GroupVersionKind:
        """Of the resource, in the version of the request."""
        resource = self.request.target.served.resource
        return GroupVersionKind(resource.group, resource.version, resource.kind)

    @property
    def cluster(self) -> Name:
        """The logical cluster of the write."""
        return self.request.target.cluster_state.name

    @property
    def creates_cluster(self) -> bool:
        """Whether the logical cluster comes into being with this write, so that nothing is configured in it.

        The write fails and is worked out again if another one creates the cluster first.
        """
        return self.operation == "CREATE" and not self.request.target.cluster_state.created_revision

    @property
    def subresource(self) -> str:
        """Empty for the object itself."""
        return self.request.target.subresource

    @property
    def options(self) -> WriteOptions:
        return self.request.options

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored: plugins must have no side effects then."""
        return self.request.options.dry_run

    @property
    def warnings(self) -> list[str]:
        """Texts for the client, shown as `Warning` headers."""
        return self.request.context.warnings

    @property
    def audit_annotations(self) -> MutableMapping[str, str]:
        """Notes for the audit event of the request: `plugin.domain/key` -> value."""
        return self.request.context.audit_annotations


def attributes_of(
    operation: Operation,
    request: WriteRequest,
    namespace: str,
    name: str,
    *,
    obj: dict[str, Any] | None,
    old: dict[str, Any] | None,
    compares: list[Compare],
    revision: int = 0,
) -> Attributes:
    """A write as plugins see it, see `Attributes`. `namespace` is that of the object, `revision` that of the object before the write.

    Source: k8s.io/apiserver `endpoints/request/requestinfo.go`, where the namespace of a request for a Namespace is its name, and
    `endpoints/handlers/create.go`.
    """
    if not namespace and request.target.served.resource.group_resource == _NAMESPACES:
        namespace = name
    version = str(revision) if revision else ""
    return Attributes(operation, request, namespace, name, obj, old, compares, Reinvocation(), version)


class AdmissionPlugin:
    """A rule that sees every write. Override what it needs: steps that are not overridden cost nothing.

    `mutate` and `validate` are coroutines or plain functions. A plain one runs on the event loop and must not block.

    Attributes:
        name: by which operators switch it on and off, such as `NamespaceLifecycle`.
        conforming: whether `mutate` leaves objects in the form of their kind. What other plugins make is pruned, filled with defaults and
            checked for wrong types again, as upstream does with the output of webhooks.
        only_dry_runs: whether `validate` has nothing to do with writes that are stored.
        operations: which it asks for.
        resources: which it asks for; None for all. Large collections are deleted faster when no plugin asks for their deletion.
    """

    name: ClassVar[str] = ""
    conforming: ClassVar[bool] = False
    only_dry_runs: ClassVar[bool] = False
    operations: Collection[Operation] = OPERATIONS
    resources: Collection[GroupResource] | None = None

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:  # noqa: ARG002 - for overriding
        """Whether the plugin has nothing to do with writes of a resource in a cluster at present.

        A plugin whose rules depend on what the cluster has configured overrides it, so that clusters without any do not pay for them. False
        where that is not known without reading. It is asked for each write and must be fast, unless the plugin overrides `follow`, too.
        """
        return False

    def follow(self, changed: Callable[[], None]) -> bool:  # noqa: ARG002 - for overriding
        """Have a function called, on the event loop, whenever an answer of `ignores` may have become another one.

        Called once, when the chain is made.

        Returns:
            Whether the plugin does so, and answers of `ignores` may be kept until then.
        """
        return False

    def mutate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Change the new object in place, or refuse the write. Called before validation, for deletions, too.

        Raises:
            StatusError: the answer to the client.
        """

    def validate(self, attributes: Attributes) -> Awaitable[None] | None:
        """Refuse the write. Called for every operation; creates and updates have passed validation by then.

        Raises:
            StatusError: the answer to the client.
        """


def conform(resource: ServedResource, obj: dict[str, Any], plugin: str) -> None:
    """Bring what a plugin made of an object into the form of its kind, in place: pruned, with defaults, of the right types.

    Raises:
        StatusError: 500 for an object that is not of the kind, 413 where defaults make it too large. The fault is the plugin's.
    """
    metadata = obj.get("metadata")
    if (obj.get("apiVersion"), obj.get("kind")) != (resource.group_version, resource.kind) or not isinstance(metadata, dict):
        raise errors.internal(f"admission plugin {plugin} changed the kind of the object")
    if problem := type_problem(obj, resource.kind) if resource.typed else metadata_mistake(metadata):
        raise errors.internal(f"admission plugin {plugin} made an invalid object: {problem}")
    prune_object_meta(metadata)
    try:
        if mistake := resource.schema.type_error(obj):
            raise errors.internal(f"admission plugin {plugin} made an invalid object: {mistake}")
        resource.schema.prune(obj)
        resource.schema.default(obj)
    except TooManyDefaultsError as error:
        raise errors.too_large(MAX_FILLED) from error
    except errors.DecodingError as error:
        raise errors.internal(f"admission plugin {plugin} made an invalid object: {error.problem}") from error
    resource.schema.complete(obj)


class Steps(NamedTuple):
    """The plugins that have something to do with the writes of a resource in a cluster, in their order."""

    mutating: Sequence[AdmissionPlugin]
    validating: Sequence[AdmissionPlugin]

    async def mutate(self, attributes: Attributes, *, own_kind: bool = True) -> None:
        """Let each plugin change the object.

        Args:
            attributes: the write.
            own_kind: whether the object is of the kind of the resource. Bodies of computed subresources may be of another one, which has no
                schema here.

        Raises:
            StatusError: of the first plugin that refuses the write.
        """
        await self._mutate(attributes, own_kind=own_kind)
        reinvocation = attributes.reinvocation
        if reinvocation.needed:
            reinvocation.again = True
            await self._mutate(attributes, own_kind=own_kind)

    async def _mutate(self, attributes: Attributes, *, own_kind: bool) -> None:
        for plugin in self.mutating:
            before = orjson.dumps(attributes.obj) if own_kind and not plugin.conforming and attributes.obj is not None else None
            if (pending := plugin.mutate(attributes)) is not None:
                await pending
            if before is not None and attributes.obj is not None:
                _settle_change(attributes, attributes.obj, before, plugin.name)

    async def validate(self, attributes: Attributes) -> None:
        """Ask each plugin.

        Raises:
            StatusError: of the first plugin that refuses the write.
        """
        for plugin in self.validating:
            if (pending := plugin.validate(attributes)) is not None:
                await pending


_Key = tuple[Operation, Name, GroupResource]


class AdmissionChain:
    """Plugins in the order in which they see a write; all mutate before any validates.

    A write of a resource to which no plugin of its cluster has anything to say costs one look-up: the plugins that have are kept until
    a plugin announces that its answer may have become another one.
    """

    def __init__(self, plugins: Sequence[AdmissionPlugin] = ()) -> None:
        self.plugins: Final = tuple(plugins)
        self._mutating: Final = tuple(one for one in plugins if type(one).mutate is not AdmissionPlugin.mutate)
        self._validating: Final = tuple(one for one in plugins if type(one).validate is not AdmissionPlugin.validate)
        self._known: Final[dict[_Key, Steps]] = {}
        """For writes that are stored. Changes of configurations are rare enough to forget the steps of all clusters together."""
        self._same: Final[dict[tuple[int, ...], Steps]] = {}
        """One of equal ones, by the identities of their plugins. There are few."""
        # The answers of the others are not kept.
        conditional = [one for one in plugins if type(one).ignores is not AdmissionPlugin.ignores and not one.only_dry_runs]
        self._fickle: Final = frozenset(id(one) for one in conditional if not one.follow(self._known.clear))
        """Those that have to be asked for each write."""

    def steps(self, operation: Operation, cluster: Name, resource: GroupResource, *, dry_run: bool) -> Steps:
        """The plugins that have something to do with an operation on a resource of a cluster at present."""
        if not dry_run and (known := self._known.get((operation, cluster, resource))) is not None:
            return known

        asked = [
            plugin
            for plugin in self.plugins
            if operation in plugin.operations and (plugin.resources is None or resource in plugin.resources)
        ]
        settled = self._fickle.isdisjoint(map(id, asked))
        # Each is asked once, so that it either takes part in both phases or in none.
        active = {id(plugin) for plugin in asked if not plugin.ignores(cluster, resource)}
        steps = Steps(
            tuple(plugin for plugin in self._mutating if id(plugin) in active),
            tuple(plugin for plugin in self._validating if id(plugin) in active and (dry_run or not plugin.only_dry_runs)),
        )
        if dry_run or not settled:
            return steps
        if len(self._known) >= _KEPT:
            self._known.clear()
        steps = self._same.setdefault((*map(id, steps.mutating), 0, *map(id, steps.validating)), steps)
        self._known[operation, cluster, resource] = steps
        return steps

    def steps_of(self, attributes: Attributes) -> Steps:
        """The plugins that have something to do with a write at present."""
        target = attributes.request.target
        resource = target.served.resource.group_resource
        return self.steps(attributes.operation, target.cluster_state.name, resource, dry_run=attributes.request.options.dry_run)

    def sees(self, operation: Operation, cluster: Name, resource: GroupResource) -> bool:
        """Whether any plugin asks for an operation on a resource of a cluster."""
        steps = self.steps(operation, cluster, resource, dry_run=False)
        return bool(steps.mutating or steps.validating)

    async def mutate(self, attributes: Attributes, *, own_kind: bool = True) -> None:
        """`Steps.mutate` of the plugins that have something to do with a write."""
        await self.steps_of(attributes).mutate(attributes, own_kind=own_kind)

    async def validate(self, attributes: Attributes) -> None:
        """`Steps.validate` of the plugins that have something to do with a write."""
        await self.steps_of(attributes).validate(attributes)


def _settle_change(attributes: Attributes, obj: dict[str, Any], before: bytes, plugin: str) -> None:
    """Bring what a plugin made of an object into the form of its kind, with the fields that the server sets as they were.

    An object that the plugin did not change is left alone: it may be older than the present schema.

    Raises:
        StatusError: see `conform`; 500, too, for another name or namespace, and for values that JSON does not have.
    """
    try:
        after = orjson.dumps(obj)
    except TypeError as error:
        raise errors.internal(f"admission plugin {plugin} made an invalid object: {error}") from error
    if after == before:
        return
    resource = attributes.resource
    conform(resource, obj, plugin)
    given = orjson.loads(before)
    metadata, kept = obj["metadata"], given["metadata"]
    if any(metadata.get(key) != kept.get(key) for key in ("name", "namespace")):
        raise errors.internal(f"admission plugin {plugin} changed the name or the namespace of the object")
    if attributes.operation == "CREATE":  # updates begin with these fields of the stored object again
        _restore(metadata, kept, _SERVER_METADATA)
        if resource.has_status and resource.strategy.resets_status:
            _restore(obj, given, ("status",))


def _restore(obj: dict[str, Any], given: dict[str, Any], fields: Iterable[str]) -> None:
    for field in fields:
        if field in given:
            obj[field] = given[field]
        else:
            obj.pop(field, None)
