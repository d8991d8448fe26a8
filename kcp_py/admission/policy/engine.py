"""`PolicyEngine`: which policies apply to a write, and their evaluation without blocking the event loop. Both plugins use it.

Source: k8s.io/apiserver `pkg/admission/plugin/policy/generic` and `pkg/admission/plugin/policy/matching`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from kcp_py.admission.policy.definitions import NO_HOOKS, Binding, Definition, Hook
from kcp_py.admission.policy.evaluation import Allowance, TooLargeError
from kcp_py.admission.policy.hooks import ClusterHooks
from kcp_py.admission.policy.matching import EVERY_REQUEST, Asked, Matching, labels_of
from kcp_py.admission.policy.objects import ConfigurationError, PolicyObjects
from kcp_py.admission.policy.permissions import Permissions, RequestAuthorizer, UndecidedError
from kcp_py.admission.policy.request import namespace_value, own_kind, request_value
from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.golang.regexp import searches
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Attributes, conform
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import StorageError
from kcp_py.tenancy import LOGICAL_CLUSTER

GROUP: Final = "admissionregistration.k8s.io"
_EXEMPT: Final = frozenset(
    {LOGICAL_CLUSTER.group_resource}
    | {GroupResource("authentication.k8s.io", review) for review in ("selfsubjectreviews", "tokenreviews")}
    | {
        GroupResource("authorization.k8s.io", review)
        for review in ("localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews")
    }
)

T = TypeVar("T")


def is_exempt(resource: GroupResource) -> bool:
    """Whether no policy sees a resource.

    Policies and webhooks must stay mendable, reviews change nothing, and with the LogicalCluster a tenant could keep his cluster from
    being deleted.
    """
    return resource.group == GROUP or resource in _EXEMPT


class Bound(NamedTuple):
    """A policy that selected a write, with one of its bindings."""

    resource: ServedResource
    """In whose form expressions see the objects."""
    binding: Binding | None
    """None for an error of the policy."""
    params: Sequence[dict[str, Any] | None] = ()
    """The parameters with which the policy is evaluated, each in turn."""
    error: str = ""
    """Why the policy or the binding cannot be used."""


class Write:
    """One write for all policies: what they share is worked out once, and only if a policy needs it."""

    def __init__(self, attributes: Attributes, objects: PolicyObjects, authorizer: RequestAuthorizer) -> None:
        self.attributes = attributes
        self._objects = objects
        self._authorizer = authorizer
        self._permissions: Permissions | None = None
        self._allowance = Allowance(Inline.EXPRESSION_COST)
        self._namespace: Mapping[str, Any] | None = None
        self._has_namespace = False
        resource = attributes.resource
        self._is_namespace = resource.group_resource == _NAMESPACES
        self._values: dict[GroupVersionResource, dict[str, Any]] = {}
        self._asked = Asked(attributes.operation, resource.key, attributes.subresource, attributes.namespace, attributes.name)

    @property
    def permissions(self) -> Permissions:
        """The answers to questions of expressions, which few expressions ask."""
        if self._permissions is None:
            self._permissions = Permissions(self._authorizer, self.attributes)
        return self._permissions

    def bound_at_once(self, hook: Hook) -> Sequence[Bound] | None:
        """`bound`, where nothing has to be read for it; None otherwise. Most policies have no parameters and select no namespaces."""
        definition = hook.definition
        if definition.param_kind is not None:
            return None
        resource = self._selected_at_once(definition.matching)
        if resource is None or resource is False:
            return None if resource is None else ()
        found = []
        for binding in hook.bindings:
            if binding.matching is not EVERY_REQUEST:
                selected = self._selected_at_once(binding.matching)
                if selected is None:
                    return None
                if selected is False:
                    continue
            found.append(Bound(resource, binding, _NO_PARAMETER))
        return found

    async def bound(self, hook: Hook) -> Sequence[Bound]:
        """The policy with each of its bindings, as far as both select the write.

        Raises:
            StatusError: objects cannot be read.
        """
        attributes, kind = self.attributes, hook.definition.param_kind
        resource = await self.selected(hook.definition.matching)
        if resource is None:
            return ()
        state = attributes.request.target.cluster_state
        if kind is not None and not await self._objects.knows(state, kind):
            name = f"{kind.group_version}, Kind={kind.kind}"
            return (Bound(resource, None, error=f"failed to find resource referenced by paramKind: '{name}'"),)
        found = []
        for binding in hook.bindings:
            if binding.matching is not EVERY_REQUEST and await self.selected(binding.matching) is None:
                continue
            try:
                params = await self._objects.parameters(state, kind, binding.parameters, attributes.namespace)
            except ConfigurationError as error:
                found.append(Bound(resource, binding, error=str(error)))
            else:
                found.append(Bound(resource, binding, params))
        return found

    async def selected(self, matching: Matching) -> ServedResource | None:
        """The resource as which rules and selectors select the write, or None.

        Raises:
            StatusError: the namespace or the kinds of the cluster cannot be read.
        """
        found = self._selected_at_once(matching)
        if found is not None:
            return None if found is False else found
        attributes = self.attributes
        resource, state = attributes.resource, attributes.request.target.cluster_state
        equivalents: Sequence[ServedResource] = ()
        key = None if matching.excluded else matching.resource_of(self._asked, ())
        if key is None:
            # Rules for other versions and groups of the resource, which few policies need.
            equivalents = () if matching.is_exact else await self._objects.equivalents(state, resource)
            key = matching.resource_of(self._asked, [one.key for one in equivalents])
        if key is None or not await self._is_in_namespace(matching):
            return None
        return next((one for one in equivalents if one.key == key), resource)

    def _selected_at_once(self, matching: Matching) -> ServedResource | Literal[False] | None:
        """`selected`, where nothing has to be read for it: False where the write is not selected, None where that is not known."""
        attributes = self.attributes
        if not matching.selects_objects(attributes.obj, attributes.old):
            return False
        if not matching.namespaces.empty and attributes.namespace:
            return None
        key = matching.resource_of(self._asked, ())
        if matching.is_exact or (key is not None and not matching.excluded):
            return False if key is None else attributes.resource
        return None

    async def _is_in_namespace(self, matching: Matching) -> bool:
        attributes = self.attributes
        if matching.namespaces.empty or not attributes.namespace:
            return True
        own = self._is_namespace and not attributes.subresource
        if own and attributes.operation in {"CREATE", "UPDATE"}:
            return matching.namespaces.matches(labels_of(attributes.obj or {}))
        return matching.namespaces.matches(labels_of(await self._its_namespace() or {}))

    async def _its_namespace(self) -> Mapping[str, Any] | None:
        if not self._has_namespace:
            state = self.attributes.request.target.cluster_state
            self._namespace = await self._objects.namespace(state, self.attributes.namespace)
            self._has_namespace = True
        return self._namespace

    def values_at_once(self, resource: ServedResource, definition: Definition) -> dict[str, Any] | None:
        """`values`, where nothing has to be read or converted for them; None otherwise."""
        attributes = self.attributes
        if resource.key != attributes.resource.key or definition.shows_authorizer or (definition.shows_namespace and attributes.namespace):
            return None
        found = self._values.get(resource.key)
        if found is None:
            found = self._values[resource.key] = {"object": attributes.obj, "oldObject": attributes.old, "namespaceObject": None}
        return self._completed(found, resource, definition)

    async def values(self, resource: ServedResource, definition: Definition | None = None) -> dict[str, Any]:
        """The variables of the environment but `params`, as far as a policy may use them.

        Args:
            resource: in whose form the objects are.
            definition: the policy that is evaluated; None for conditions of webhooks, which do not see the namespace.

        Raises:
            StatusError: objects cannot be converted to the version that the policy selected.
        """
        found = self._values.get(resource.key)
        if found is None:
            attributes, own = self.attributes, self.attributes.resource
            found = self._values[resource.key] = {
                "object": await self._objects.converted(attributes.obj, own, resource),
                "oldObject": await self._objects.converted(attributes.old, own, resource),
                "namespaceObject": None,
            }
        self._completed(found, resource, definition)
        if definition is not None and definition.shows_namespace and not self._is_namespace and self.attributes.namespace:
            return {**found, "namespaceObject": namespace_value(await self._its_namespace())}
        return found

    def _completed(self, values: dict[str, Any], resource: ServedResource, definition: Definition | None) -> dict[str, Any]:
        """Values with what a policy may use besides the objects."""
        if "request" not in values and (definition is None or definition.shows_request):
            attributes = self.attributes
            kind = own_kind(attributes) if resource.key == attributes.resource.key else resource.group_version_kind
            values["request"] = request_value(attributes, kind, resource.key)
        if "authorizer" not in values and (definition is None or definition.shows_authorizer):
            values |= self.permissions.values()
        return values

    async def replace(self, obj: dict[str, Any], resource: ServedResource, plugin: str) -> None:
        """Make an object that a mutation has made the object of the write.

        Args:
            obj: the object.
            resource: in whose form it is.
            plugin: the name of the plugin, for errors.

        Raises:
            StatusError: 500 where it is not an object of its kind.
        """
        attributes = self.attributes
        form = copy.deepcopy(obj)
        conform(resource, form, plugin)
        own = await self._objects.converted(form, resource, attributes.resource)
        assert own is not None
        assert attributes.obj is not None
        attributes.obj.clear()
        attributes.obj.update(own)
        self._values.clear()

    def evaluated_at_once(self, evaluate: Callable[[Allowance | None], T]) -> T | None:
        """`evaluated` of what asks for no permissions, where no thread is needed; None otherwise."""
        try:
            with searches(long=False):
                return evaluate(self._allowance)
        except TooLargeError:
            return None

    async def evaluated(self, evaluate: Callable[[Allowance | None], T]) -> T:
        """The result of a pure evaluation, which may ask for permissions. A large one runs in a thread."""
        allowance: Allowance | None = self._allowance
        while True:
            try:
                if allowance is None:
                    return await offload(evaluate, None)
                with searches(long=False):
                    return evaluate(allowance)
            except TooLargeError:
                allowance = None
            except UndecidedError as error:
                await self.permissions.settle(error.question)


_NAMESPACES: Final = GroupResource("", "namespaces")
_NO_PARAMETER: Final = (None,)
"""A policy without parameters is evaluated once."""


class PolicyEngine:
    """The policies of one kind of all clusters."""

    def __init__(self, hooks: ClusterHooks, objects: PolicyObjects, authorizer: RequestAuthorizer) -> None:
        self._hooks = hooks
        self.objects = objects
        self._authorizer = authorizer

    def has_none(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether no policy of a cluster is about a resource, as far as that is known without reading."""
        hooks = self._hooks.known(cluster)
        return hooks is NO_HOOKS or is_exempt(resource) or (hooks is not None and hooks.lacks(resource))

    def follow(self, changed: Callable[[], None]) -> None:
        """Have a function called when an answer of `has_none` may have become another one."""
        self._hooks.follow(changed)

    def hooks_at_once(self, attributes: Attributes) -> Sequence[Hook] | None:
        """`hooks`, where nothing has to be read for them, and they were asked for before; None otherwise."""
        if attributes.creates_cluster:
            return ()
        found = self._hooks.known(attributes.cluster)
        return None if found is None else found.known(attributes.resource.group_resource)

    async def hooks(self, attributes: Attributes) -> Sequence[Hook]:
        """The policies that may be about a write.

        Raises:
            StatusError: the store cannot be read.
        """
        if attributes.creates_cluster:
            return ()
        resource = attributes.resource
        try:
            found = await self._hooks.get(attributes.cluster)
        except StorageError as error:
            raise translate(error) from error
        return found.of(resource.group_resource, self.objects.other_groups(resource)) if found else ()

    def begin(self, attributes: Attributes) -> Write:
        """A write for the policies to see."""
        return Write(attributes, self.objects, self._authorizer)
