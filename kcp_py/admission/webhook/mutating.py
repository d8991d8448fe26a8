"""`MutatingAdmissionWebhook`: lets the mutating webhooks of a cluster change an object, one after the other.

Source: k8s.io/apiserver `pkg/admission/plugin/webhook/mutating` (`dispatcher.go`, `reinvocationcontext.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import orjson

from kcp_py.admission.reinvocation import Rounds
from kcp_py.admission.webhook.calls import CallFailedError
from kcp_py.admission.webhook.dispatch import Invocation, WebhookDispatch, received_form
from kcp_py.admission.webhook.review import Answer, refusal_of
from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.equality import identical
from kcp_py.apimachinery.errors import DecodingError, StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.patches import json_patch
from kcp_py.apimachinery.serializer.json.codec import decode_json
from kcp_py.golang.json import go_json
from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import OPERATIONS, AdmissionPlugin, Attributes, Operation, conform
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.scale import apply_scale

_LARGEST_OBJECT: Final = 3 * 1024 * 1024
"""Bytes that webhooks may make of an object, as many as a client may send."""
_FILLED_LATER: Final = ("creationTimestamp", "generation", "uid")
_PREFIX: Final = "mutation.webhook.admission.k8s.io/"


class MutatingAdmissionWebhook(AdmissionPlugin):
    """Calls the webhooks of the MutatingWebhookConfigurations of the cluster of a write."""

    name = "MutatingAdmissionWebhook"
    operations: Collection[Operation] = (*OPERATIONS, "CONNECT")

    def __init__(self, dispatch: WebhookDispatch) -> None:
        self._dispatch = dispatch

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        """Whether the cluster has no webhooks, or the resource is exempt."""
        return self._dispatch.has_none(cluster, resource)

    def follow(self, changed: Callable[[], None]) -> bool:
        """Announce what clusters configure."""
        self._dispatch.follow(changed)
        return True

    async def mutate(self, attributes: Attributes) -> None:
        """Call the webhooks of the cluster.

        Raises:
            StatusError: a webhook denied the write or failed; 429 where too many writes of the cluster wait.
        """
        dispatch = self._dispatch
        webhooks = await dispatch.webhooks(attributes)
        if not webhooks:
            return
        rounds = Rounds.of(attributes, self.name)
        again = attributes.reinvocation.again
        write = dispatch.begin(attributes)
        for index, webhook in enumerate(webhooks):
            if again and not rounds.is_due(webhook.identity):
                continue
            invocation = await dispatch.invocation(webhook, write)
            if invocation is None:
                continue
            changed = await self._call(invocation, attributes, index)
            if changed:
                rounds.changed()
                attributes.reinvocation.needed = True
                write = dispatch.begin(attributes)
            if webhook.is_reinvoked:
                rounds.applied(webhook.identity)
        rounds.end(attributes)

    async def _call(self, invocation: Invocation, attributes: Attributes, index: int) -> bool:
        """Call a webhook, and apply its patch. Returns whether that changed the object.

        Raises:
            StatusError: see `mutate`.
        """
        webhook, dispatch = invocation.webhook, self._dispatch
        place = f"round_{int(attributes.reinvocation.again)}_index_{index}"
        request = await dispatch.review(invocation, attributes)
        if attributes.operation == "CREATE" and (attributes.obj or {}).get("kind") == attributes.resource.kind:
            # Upstream fills these fields after mutating webhooks.
            for field in _FILLED_LATER:
                request["object"]["metadata"].pop(field, None)
        changed = False
        try:
            answer = await self._answer(invocation, attributes, request)
            if not answer.allowed:
                raise refusal_of(webhook.name, answer.result)
            changed = await self._apply(answer, invocation, attributes, request["object"])
        except CallFailedError as error:
            if not webhook.ignores_failures:
                raise errors.internal(str(error)) from None
            attributes.audit_annotations[f"failed-open.{_PREFIX}{place}"] = webhook.name
        finally:
            note = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed}
            attributes.audit_annotations[f"{_PREFIX}{place}"] = go_json(note)
        return changed

    async def _answer(self, invocation: Invocation, attributes: Attributes, request: dict[str, Any]) -> Answer:
        """See `ask`. The write goes on after a failure that is ignored, so it takes its slots again then, too."""
        failure: CallFailedError | None = None
        async with self._dispatch.calls.waiting(attributes.cluster):
            try:
                return await self._dispatch.ask(invocation, attributes, request, mutating=True)
            except CallFailedError as error:
                failure = error
        raise failure

    async def _apply(self, answer: Answer, invocation: Invocation, attributes: Attributes, sent: dict[str, Any] | None) -> bool:
        """Apply the patch of an answer to the object that was sent.

        Raises:
            CallFailedError: the patch cannot be read.
            StatusError: 500, it cannot be applied, or makes something else of the object; 413, it makes the object too large.
        """
        if not answer.patch:
            return False
        name = invocation.webhook.name
        large = max(len(answer.patch), attributes.request.size, attributes.reinvocation.size) > Inline.TRANSFORM
        operations = await offload(_operations, answer.patch, name) if large else _operations(answer.patch, name)
        if not operations:
            return False
        if sent is None or attributes.obj is None:
            text = f"admission webhook {go_quote(name)} attempted to modify the object, which is not supported for this operation"
            raise errors.internal(text)
        if answer.patch_type != "JSONPatch":
            raise CallFailedError(name, f"unsupported patch type {go_quote(answer.patch_type)}")
        if large or json_patch.is_heavy(operations):
            patched, size = await offload(_patched, sent, operations)
        else:
            patched, size = _patched(sent, operations)
        if not size:
            return False
        if size > _LARGEST_OBJECT:
            raise errors.too_large(_LARGEST_OBJECT)
        attributes.reinvocation.size = size
        await self._take(patched, invocation, attributes)
        return True

    async def _take(self, patched: Any, invocation: Invocation, attributes: Attributes) -> None:
        """Make an object that a webhook changed the object of the write, in place, in the form of its kind."""
        own, obj, webhook = attributes.resource, attributes.obj, invocation.webhook.name
        assert obj is not None
        if attributes.operation == "CONNECT":
            if not isinstance(patched, dict) or any(patched.get(field) != obj[field] for field in ("apiVersion", "kind")):
                raise errors.internal(f"admission webhook {go_quote(webhook)} made something else of the object")
            obj.clear()
            obj.update(patched)
            return
        if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
            raise errors.internal(f"admission webhook {go_quote(webhook)} made something else of the object")
        if (paths := attributes.request.target.scale) is not None:
            patched["metadata"].pop("resourceVersion", None)
            apply_scale(patched, obj, paths)
            return
        received_form(patched)
        large = attributes.reinvocation.size > Inline.TRANSFORM
        if invocation.resource.key != own.key:
            await _conform(invocation.resource, patched, webhook, large=large)
            patched = dict(await self._dispatch.objects.converted(patched, invocation.resource, own) or {})
        if obj.get("kind") == own.kind:
            await _conform(own, patched, webhook, large=large)
        for field in _FILLED_LATER:
            if field in obj["metadata"]:
                patched["metadata"][field] = obj["metadata"][field]
        obj.clear()
        obj.update(patched)


def _patched(sent: dict[str, Any], operations: Any) -> tuple[Any, int]:
    """What a patch makes of an object, which shares nothing with it, and its size in bytes; 0 where the patch changes nothing.

    Raises:
        StatusError: 500, an operation cannot be applied.
    """
    try:
        patched = json_patch.apply(sent, operations)
    except StatusError as error:
        raise errors.internal(error.message.removeprefix("the server rejected our request due to an error in our request: ")) from None
    if identical(patched, sent):
        return None, 0
    encoded = orjson.dumps(patched)
    return orjson.loads(encoded), len(encoded)


async def _conform(resource: ServedResource, obj: dict[str, Any], webhook: str, *, large: bool) -> None:
    """See `conform`. What a client would get as 400 is 500 here, as the fault is the webhook's."""
    try:
        if large:
            await offload(conform, resource, obj, f"webhook {webhook}")
        else:
            conform(resource, obj, f"webhook {webhook}")
    except DecodingError as error:
        raise errors.internal(error.problem) from None
    except StatusError as error:
        # Upstream's text about metadata of wrong types is that of the decoder alone.
        _, found, problem = error.message.partition(f"admission plugin webhook {webhook} made an invalid object: ")
        if not found:
            raise
        raise errors.internal(problem) from None


def _operations(patch: bytes, webhook: str) -> Any:
    """The operations of a patch.

    Raises:
        CallFailedError: they are not JSON, or not a list.
    """
    try:
        operations = decode_json(patch)
    except ValueError as error:
        reason = str(error)
    else:
        if isinstance(operations, list) and all(isinstance(one, dict) for one in operations):
            return operations
        kind = "object" if isinstance(operations, dict) else type(operations).__name__
        reason = f"json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
    raise CallFailedError(webhook, f"received undecodable patch in webhook response: {reason}")
