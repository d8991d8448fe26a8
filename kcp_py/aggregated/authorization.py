"""`DelegatedAuthorizer`: leaves decisions to the API server that this one is a part of.

Source: k8s.io/apiserver `pkg/server/options/authorization.go` and `pkg/authorization/authorizerfactory/delegating.go`: privileged groups
and paths that all may read first, then a SubjectAccessReview. The reviews have no logical cluster, so there is one cluster alone.
"""

from __future__ import annotations

from typing import Final

from kcp_py.aggregated.settings import Delegation
from kcp_py.authz.authorizer import Decision
from kcp_py.authz.static import AlwaysAllowPaths, PrivilegedGroups
from kcp_py.authz.webhook.authorizer import WebhookAuthorizer, WebhookSettings
from kcp_py.authz.webhook.conditions import MatchConditions
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.egress.repeating import Webhook
from kcp_py.logicalcluster import ROOT, ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import UserInfo

RESOURCE: Final = "authorization.k8s.io/v1/subjectaccessreviews"
_ONE_CLUSTER: Final = Decision(allowed=False, reason="an aggregated API server has one logical cluster")


class DelegatedAuthorizer:
    """An `Authorizer` whose decisions are final."""

    def __init__(self, reviews: Webhook, delegation: Delegation) -> None:
        """Prepare.

        Args:
            reviews: receives SubjectAccessReviews.
            delegation: says for how long answers count.
        """
        settings = WebhookSettings(
            name="delegate",
            version="v1",
            authorized_seconds=delegation.allowed_cache_seconds,
            unauthorized_seconds=delegation.denied_cache_seconds,
            denies_on_failure=True,
            conditions=MatchConditions(),
            names_cluster=False,
        )
        self._public = AlwaysAllowPaths(delegation.always_allow_paths)
        self._privileged = PrivilegedGroups()
        self._asked = WebhookAuthorizer(reviews, settings, metrics=WebhookMetrics())

    async def aclose(self) -> None:
        """Close the connections."""
        await self._asked.aclose()

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        """See `Authorizer`."""
        if cluster != ROOT:
            return _ONE_CLUSTER
        for first in (self._public, self._privileged):
            if (decision := first.decide(user, cluster, info)) is not None:
                return decision
        answer = await self._asked.authorize(user, cluster, info)
        # Nothing behind it may allow what the other server does not.
        return Decision(allowed=False) if answer is None else answer._replace(final=True)
