"""Controller `legacy-serviceaccount-token-cleaner-controller`: unused tokens of secrets that accounts name are marked and later deleted.

Kubernetes made such a secret for each account until 1.24; here they come from other clusters, with their accounts. Secrets that users made
themselves are not named by an account, and are never touched.

Source: kubernetes `pkg/controller/serviceaccount/legacy_serviceaccount_token_cleaner.go` and
`pkg/controlplane/controller/legacytokentracking`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.core.tokensecrets import (
    ACCOUNT_NAME,
    ACCOUNT_UID,
    INVALID_SINCE,
    LAST_USED,
    TRACKED_SINCE,
    TRACKING,
    TYPE,
    day_of,
    has_reference,
    seconds_of_day,
)
from kcp_py.client import Client, ObjectFilter
from kcp_py.controllers.names import LEGACY_CLEANER
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name

DAY_SECONDS: Final = 86_400.0
"""Secrets are looked at once a day, and when they change."""
YEAR_SECONDS: Final = 365 * DAY_SECONDS
_SYSTEM: Final = "kube-system"
_PAGE: Final = 500
_SECRETS: Final = GroupVersionResource("", "v1", "secrets")
_ACCOUNTS: Final = GroupVersionResource("", "v1", "serviceaccounts")
_CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
_PODS: Final = GroupResource("", "pods")
_TYPE: Final = TYPE.encode()


class LegacyTokenCleaner:
    """Marks a secret once its token was not used for a period, and deletes it when it has been marked for the same period.

    A cluster with such a secret has a ConfigMap with the day since when uses are recorded. Nothing is marked within a period after it.
    """

    name = LEGACY_CLEANER
    per_cluster = 1

    def __init__(self, client: Client, *, period: float = YEAR_SECONDS, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            period: seconds.
            clock: Unix seconds.
        """
        self._client = client
        self._period = period
        self._clock = clock

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Secrets with tokens."""
        return (ControllerSource(_SECRETS, wanted=ObjectFilter(contains=((_TYPE,),))),)

    async def reconcile(self, key: Key) -> int | Later:
        secret = await find(self._client, _SECRETS, key)
        if secret is None or secret.get("type") != TYPE or secret["metadata"].get("deletionTimestamp"):
            return 0
        if not await self._is_generated(key, secret):
            return Later(DAY_SECONDS)
        now = self._clock()
        tracked_since = await self._tracked_since(key.cluster, now)
        oldest = max(parse_time(secret["metadata"]["creationTimestamp"]), tracked_since + DAY_SECONDS)
        remaining = oldest + self._period - now
        # Of a time that is reached exactly, another second has to pass.
        if remaining >= 0:
            return Later(min(remaining + 1, DAY_SECONDS))
        unused_since = day_of(now - self._period)
        if _is_in_use(secret, unused_since) or await self._is_mounted(key):
            return Later(DAY_SECONDS)
        metadata = secret["metadata"]
        lock = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        invalid_since = (metadata.get("labels") or {}).get(INVALID_SINCE)
        if seconds_of_day(invalid_since) is None:
            # With the revision: a use that is recorded meanwhile counts.
            document = {"metadata": {**lock, "labels": {INVALID_SINCE: day_of(now)}}}
            await self._client.patch(key.cluster, _SECRETS, key.namespace, key.name, document=document)
        elif str(invalid_since) < unused_since:
            uid, revision = lock["uid"], lock["resourceVersion"]
            await self._client.delete(key.cluster, _SECRETS, key.namespace, key.name, uid=uid, resource_version=revision)
        return Later(DAY_SECONDS)

    async def _is_generated(self, key: Key, secret: Mapping[str, Any]) -> bool:
        """Whether the account of a secret exists and names it."""
        annotations = secret["metadata"].get("annotations") or {}
        account = await find(self._client, _ACCOUNTS, key._replace(name=annotations.get(ACCOUNT_NAME, "")))
        if account is None or (annotations.get(ACCOUNT_UID) or account["metadata"]["uid"]) != account["metadata"]["uid"]:
            return False
        return has_reference(account, key.name)

    async def _tracked_since(self, cluster: Name, now: float) -> float:
        """The beginning of the day since when uses are recorded, in unix seconds; the day is today where none is known."""
        found = await find(self._client, _CONFIG_MAPS, Key(cluster, _SYSTEM, TRACKING))
        since = seconds_of_day((found.get("data") or {}).get(TRACKED_SINCE)) if found is not None else None
        if since is not None:
            return since
        today = day_of(now)
        if found is None:
            obj = {"metadata": {"name": TRACKING, "namespace": _SYSTEM}, "data": {TRACKED_SINCE: today}}
            await self._client.create(cluster, _CONFIG_MAPS, obj)
        else:
            await self._client.update(cluster, _CONFIG_MAPS, {**found, "data": {**(found.get("data") or {}), TRACKED_SINCE: today}})
        return now

    async def _is_mounted(self, key: Key) -> bool:
        """Whether a pod of the namespace names the secret, in a cluster that serves pods."""
        pods = await self._client.find_resource(key.cluster, _PODS)
        if pods is None:
            return False
        token = ""
        while True:
            page = await self._client.list(key.cluster, pods.resource, key.namespace, limit=_PAGE, continue_token=token)
            if any(key.name in _secrets_of(pod.get("spec")) for pod in page.items):
                return True
            token = page.continue_token
            if not token:
                return False


def _is_in_use(secret: Mapping[str, Any], unused_since: str) -> bool:
    """Whether the label of the last use says so, or cannot be read."""
    last_used = (secret["metadata"].get("labels") or {}).get(LAST_USED)
    return last_used is not None and (seconds_of_day(last_used) is None or last_used >= unused_since)


def _secrets_of(value: object, within: str = "") -> Iterator[str]:
    """The names of all secrets in a part of a pod: in fields such as `secretName`, `secretRef.name` and `imagePullSecrets[].name`."""
    if isinstance(value, Mapping):
        for field, inner in value.items():
            if isinstance(inner, str):
                if field == "secretName" or (field == "name" and "secret" in within.lower()):
                    yield inner
            else:
                yield from _secrets_of(inner, field)
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for one in value:
            yield from _secrets_of(one, within)
