"""`WebhookDispatch`: which webhooks of a cluster are called about a write, and what they are sent. Both plugins use it.

Source: k8s.io/apiserver `pkg/admission/plugin/webhook/generic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.admission.policy.engine import Write, is_exempt
from kcp_py.admission.policy.objects import PolicyObjects
from kcp_py.admission.policy.permissions import RequestAuthorizer
from kcp_py.admission.policy.request import own_kind, request_value
from kcp_py.admission.webhook.calls import WebhookCalls
from kcp_py.admission.webhook.definitions import Webhook
from kcp_py.admission.webhook.review import Answer
from kcp_py.aio.lru import LRU
from kcp_py.aio.offload import offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.apimachinery.meta.names import qualified_name_problems
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import Attributes
from kcp_py.registry.rendering import CLUSTER_ANNOTATION
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.scale import scale_of
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import StorageError

if TYPE_CHECKING:
    from kcp_py.admission.policy.evaluation import Allowance
    from kcp_py.admission.policy.validating import Conditions

_CONDITIONS: Final = 1000
"""The compiled conditions of so many webhooks are kept, those that were used last."""

_SCALE: Final = GroupVersionKind("autoscaling", "v1", "Scale")
_DEFAULT_VALIDATION: Final = "Warn"
"""Of `fieldValidation`; upstream names it where the client did."""
_SEVERAL_GROUPS: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})

Configurations = ClusterObjects[tuple[Webhook, ...]]


class Invocation(NamedTuple):
    """A webhook that is called about a write."""

    webhook: Webhook
    resource: ServedResource
    """In whose version the webhook sees the objects."""


class WebhookDispatch:
    """The webhooks of one kind of all clusters."""

    def __init__(self, configurations: Configurations, objects: PolicyObjects, authorizer: RequestAuthorizer, calls: WebhookCalls) -> None:
        self._configurations = configurations
        self.objects: Final = objects
        self._authorizer = authorizer
        self.calls: Final = calls
        self._conditions: LRU[tuple[tuple[str, ...], bool], Conditions] = LRU(_CONDITIONS)

    def has_none(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether no webhook of a cluster is called about a resource, as far as that is known without reading."""
        found = self._configurations.cached(cluster)
        if found is not None and not found:
            return True
        if is_exempt(resource):
            return True
        if found is None or resource in _SEVERAL_GROUPS:
            return False
        return not any(webhook.matching.may_select(resource) for one in found for webhook in one.value)

    def follow(self, changed: Callable[[], None]) -> None:
        """Have a function called when an answer of `has_none` may have become another one."""
        self._configurations.follow(changed)

    async def webhooks(self, attributes: Attributes) -> Sequence[Webhook]:
        """The webhooks of the cluster of a write in the order in which they are called, if any may be called.

        Raises:
            StatusError: the store cannot be read.
        """
        if attributes.creates_cluster:
            return ()
        try:
            found = await self._configurations.get(attributes.cluster)
        except StorageError as error:
            raise translate(error) from error
        if not found:
            return ()
        resource = attributes.resource
        resources = (resource.group_resource, *self.objects.other_groups(resource))
        webhooks = [webhook for one in found for webhook in one.value]
        if any(webhook.matching.may_select(of) for webhook in webhooks for of in resources):
            return webhooks
        return ()

    def begin(self, attributes: Attributes) -> Write:
        """A write for the webhooks to see."""
        return Write(attributes, self.objects, self._authorizer)

    async def invocation(self, webhook: Webhook, write: Write) -> Invocation | None:
        """How a webhook is called about a write; None where it is not.

        Raises:
            StatusError: 403 where the conditions of the webhook cannot tell; the store cannot be read.
        """
        selected = await write.selected(webhook.matching)
        if selected is None or (webhook.conditions and not await self._meets(webhook, write, selected)):
            return None
        return Invocation(webhook, selected)

    async def _meets(self, webhook: Webhook, write: Write, selected: ServedResource) -> bool:
        conditions = await self._compiled(webhook)
        values = await write.values(selected)

        def evaluate(allowance: Allowance | None) -> tuple[bool, str]:
            return conditions.match(values, {}, allowance)

        matches, problem = await write.evaluated(evaluate)
        if problem:
            attributes = write.attributes
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, problem)
        return matches

    async def _compiled(self, webhook: Webhook) -> Conditions:
        key = (webhook.conditions, webhook.ignores_failures)
        found = self._conditions.get(key)
        if found is None:
            found = await offload(_compile, *key)
            self._conditions.set(key, found)
        return found

    async def review(self, invocation: Invocation, attributes: Attributes) -> dict[str, Any]:
        """What a webhook is told about a write.

        Raises:
            StatusError: the objects cannot be converted to the version that the webhook asks for.
        """
        own, resource, paths = attributes.resource, invocation.resource, attributes.request.target.scale
        kind = own_kind(attributes) if resource.key == own.key else resource.group_version_kind
        request = request_value(attributes, kind if paths is None else _SCALE, resource.key)
        if paths is not None:
            request["requestKind"] = request["kind"]
        if (request.get("options") or {}).get("fieldValidation") == _DEFAULT_VALIDATION:
            del request["options"]["fieldValidation"]
        if attributes.request.context.info.verb == "deletecollection":
            # As upstream: one review for each object of a collection, none of which has a name.
            request.pop("name", None)
        for field, obj in (("object", attributes.obj), ("oldObject", attributes.old)):
            form = await self.objects.converted(obj, own, resource)
            if form is not None and paths is not None:
                form = scale_of(form, paths)
            request[field] = None if form is None else sent_form(form, attributes)
        request.setdefault("options", None)
        return request

    async def ask(self, invocation: Invocation, attributes: Attributes, request: Mapping[str, Any], *, mutating: bool) -> Answer:
        """Call a webhook. Its warnings and annotations are noted, whatever it decides.

        Raises:
            StatusError: 400 for a dry run that the webhook does not support.
            CallFailedError: there is no answer that can be used.
        """
        webhook = invocation.webhook
        if attributes.dry_run and not webhook.allows_dry_run:
            raise errors.bad_request(f'admission webhook "{webhook.name}" does not support dry run')
        size = attributes.request.size
        answer = await self.calls.ask(webhook, attributes.cluster, request, size=size, mutating=mutating)
        for key, value in answer.audit_annotations.items():
            if not qualified_name_problems(full := f"{webhook.name}/{key}"):
                attributes.audit_annotations[full] = value
        attributes.warnings.extend(answer.warnings)
        return answer


def sent_form(obj: Mapping[str, Any], attributes: Attributes) -> dict[str, Any]:
    """An object as clients of the cluster see it: with its cluster and its resourceVersion. It shares the rest with `obj`.

    The options of a connection have no metadata.
    """
    if attributes.operation == "CONNECT":
        return dict(obj)
    metadata = dict(obj.get("metadata") or {})
    if attributes.subresource and attributes.namespace:
        metadata.setdefault("namespace", attributes.namespace)
    metadata["annotations"] = {**(metadata.get("annotations") or {}), CLUSTER_ANNOTATION: attributes.cluster}
    if attributes.resource_version:
        metadata["resourceVersion"] = attributes.resource_version
    return {**obj, "metadata": metadata}


def received_form(obj: dict[str, Any]) -> None:
    """The reverse of `sent_form`, in place, of an object that a webhook may have changed."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return
    metadata.pop("resourceVersion", None)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        annotations.pop(CLUSTER_ANNOTATION, None)
        if not annotations:
            del metadata["annotations"]


def _compile(conditions: tuple[str, ...], ignores_failures: bool) -> Conditions:  # noqa: FBT001 - called in a thread
    # Most webhooks have no conditions, and CEL is large.
    from kcp_py.admission.policy.validating import Conditions  # noqa: PLC0415
    from kcp_py.apis.admissionregistration.environment import Declared, environment_of  # noqa: PLC0415
    from kcp_py.apis.admissionregistration.expressions import CONDITION, compile_in  # noqa: PLC0415

    environment = environment_of(Declared())
    compiled = [compile_in(environment, text, CONDITION) for text in deepcopy(conditions)]
    return Conditions(compiled, ignore_errors=ignores_failures)
