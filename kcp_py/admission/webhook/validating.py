"""`ValidatingAdmissionWebhook`: asks the validating webhooks of a cluster about a write, all at once.

Source: k8s.io/apiserver `pkg/admission/plugin/webhook/validating/dispatcher.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Final

from kcp_py.admission.webhook.calls import CallFailedError
from kcp_py.admission.webhook.dispatch import Invocation, WebhookDispatch
from kcp_py.admission.webhook.review import refusal_of
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import OPERATIONS, AdmissionPlugin, Attributes, Operation

_FAILED_OPEN: Final = "failed-open.validating.webhook.admission.k8s.io/round_0_index_"


class ValidatingAdmissionWebhook(AdmissionPlugin):
    """Calls the webhooks of the ValidatingWebhookConfigurations of the cluster of a write."""

    name = "ValidatingAdmissionWebhook"
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

    async def validate(self, attributes: Attributes) -> None:
        """Ask the webhooks of the cluster.

        Raises:
            StatusError: of the first webhook that denied the write or failed; 429 where too many writes of the cluster wait.
        """
        dispatch = self._dispatch
        webhooks = await dispatch.webhooks(attributes)
        if not webhooks:
            return
        write = dispatch.begin(attributes)
        invocations = [found for webhook in webhooks if (found := await dispatch.invocation(webhook, write)) is not None]
        if not invocations:
            return
        requests = [await dispatch.review(invocation, attributes) for invocation in invocations]
        refusals: list[StatusError] = []
        async with dispatch.calls.waiting(attributes.cluster):
            if len(invocations) == 1:
                await self._ask(0, invocations[0], attributes, requests[0], refusals)
            else:
                async with asyncio.TaskGroup() as group:
                    for index, (invocation, request) in enumerate(zip(invocations, requests, strict=True)):
                        group.create_task(self._ask(index, invocation, attributes, request, refusals))
        if refusals:
            raise refusals[0]

    async def _ask(
        self, index: int, invocation: Invocation, attributes: Attributes, request: dict[str, Any], refusals: list[StatusError]
    ) -> None:
        """Ask one webhook; refusals are collected in the order in which they come."""
        webhook = invocation.webhook
        try:
            answer = await self._dispatch.ask(invocation, attributes, request, mutating=False)
        except CallFailedError as error:
            if webhook.ignores_failures:
                attributes.audit_annotations[f"{_FAILED_OPEN}{index}"] = webhook.name
            else:
                refusals.append(errors.internal(str(error)))
        except StatusError as error:
            refusals.append(error)
        else:
            if not answer.allowed:
                refusals.append(refusal_of(webhook.name, answer.result))
