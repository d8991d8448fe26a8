"""Unused tokens of secrets that accounts name: marked after a period, deleted after another one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.core.tokensecrets import INVALID_SINCE, LAST_USED, TRACKING, day_of
from kcp_py.controllers import ControllerSettings, start_controllers
from kcp_py.controllers.legacytokens import DAY_SECONDS, LegacyTokenCleaner
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import CONFIG_MAPS, CRDS, Registry, open_registry

pytestmark = pytest.mark.anyio

TEAM: Final = Name("team-a")
KEY: Final = Key(TEAM, "default", "one")
SECRETS: Final = GroupVersionResource("", "v1", "secrets")
ACCOUNTS: Final = GroupVersionResource("", "v1", "serviceaccounts")
PODS: Final = GroupVersionResource("", "v1", "pods")
PERIOD: Final = 30 * DAY_SECONDS
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"


class Cleaner:
    """The controller with a clock of its own, which begins at the creation of the secret."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.now = 0.0
        self.controller = LegacyTokenCleaner(registry.client, period=PERIOD, clock=lambda: self.now)

    async def create(self, *references: str, kind: str = "kubernetes.io/service-account-token", **metadata: Any) -> None:
        """An account that names secrets, and a secret with its token."""
        client = self.registry.client
        account = {"metadata": {"name": "builder", "namespace": "default"}, "secrets": [{"name": name} for name in references]}
        await client.create(TEAM, ACCOUNTS, account)
        meta = {"name": "one", "namespace": "default", "annotations": {NAME: "builder"}, **metadata}
        made = await client.create(TEAM, SECRETS, {"metadata": meta, "type": kind})
        self.now = parse_time(made["metadata"]["creationTimestamp"])

    async def after(self, days: float, **labels: str | None) -> Mapping[str, str] | None:
        """The labels of the secret once the controller has looked at it some days later; None where it has gone."""
        self.now += days * DAY_SECONDS
        if labels:
            document = {"metadata": {"labels": {_LABELS[key]: value for key, value in labels.items()}}}
            await self.registry.client.patch(TEAM, SECRETS, "default", "one", document=document)
        answer = await self.controller.reconcile(KEY)
        assert answer == 0 or (isinstance(answer, Later) and 0 < answer.seconds <= DAY_SECONDS)
        try:
            found = await self.registry.client.get(TEAM, SECRETS, "default", "one")
        except StatusError as error:
            if error.code != 404:
                raise
            return None
        return dict(found["metadata"].get("labels") or {})

    async def since(self) -> Any:
        """The day since when uses are recorded."""
        found = await self.registry.client.get(TEAM, CONFIG_MAPS, "kube-system", TRACKING)
        return found["data"]


_LABELS: Final = {"used": LAST_USED, "invalid": INVALID_SINCE}


@pytest.fixture
async def cleaner() -> AsyncIterator[Cleaner]:
    async with open_registry(MemoryStorage()) as opened:
        yield Cleaner(opened)


async def test_an_unused_token_is_marked_and_then_deleted(cleaner: Cleaner) -> None:
    """A period after the day since when uses are recorded, and a period after the mark. Days count as a whole."""
    await cleaner.create("one")
    assert await cleaner.after(0) == {}
    assert await cleaner.since() == {"since": day_of(cleaner.now)}
    assert await cleaner.after(30) == {}
    assert await cleaner.after(2) == {INVALID_SINCE: (marked := day_of(cleaner.now))}
    assert await cleaner.after(30) == {INVALID_SINCE: marked}
    assert await cleaner.after(1) is None
    assert await cleaner.controller.reconcile(KEY) == 0


async def test_a_used_token_stays(cleaner: Cleaner) -> None:
    """For a period after its last use, and when a client shows it after it was marked."""
    await cleaner.create("one")
    await cleaner.after(0)
    assert INVALID_SINCE not in (await cleaner.after(40, used=day_of(cleaner.now + 40 * DAY_SECONDS)) or {})
    assert INVALID_SINCE not in (await cleaner.after(30) or {})
    marked = await cleaner.after(1) or {}
    assert marked[INVALID_SINCE] == day_of(cleaner.now)
    assert await cleaner.after(40, used=day_of(cleaner.now + 40 * DAY_SECONDS)) is not None
    assert await cleaner.after(31) is None


async def test_the_mark_can_be_taken_off(cleaner: Cleaner) -> None:
    """The token is marked again, as long as it is not used."""
    await cleaner.create("one")
    await cleaner.after(0)
    assert INVALID_SINCE in (await cleaner.after(32) or {})
    assert (await cleaner.after(31, invalid=None) or {})[INVALID_SINCE] == day_of(cleaner.now)
    assert (await cleaner.after(31, invalid="once") or {})[INVALID_SINCE] == day_of(cleaner.now)


@pytest.mark.parametrize("used", ["once", "2026-1-1", ""])
async def test_a_label_that_is_no_day_protects_the_secret(cleaner: Cleaner, used: str) -> None:
    """It cannot be known when the token was used."""
    await cleaner.create("one")
    await cleaner.after(0)
    assert INVALID_SINCE not in (await cleaner.after(100, used=used) or {})


@pytest.mark.parametrize(
    ("references", "more"),
    [
        ((), {}),
        (("other",), {}),
        (("one",), {"annotations": {NAME: "gone"}}),
        (("one",), {"annotations": {NAME: "builder", UID: "of another account"}}),
        (("one",), {"kind": "Opaque"}),
    ],
    ids=["not named", "another is named", "no account", "another account", "no token"],
)
async def test_other_secrets_are_left_alone(cleaner: Cleaner, references: tuple[str, ...], more: dict[str, Any]) -> None:
    """Those that users made, above all. Their clusters get no ConfigMap either."""
    await cleaner.create(*references, **more)
    for days in (0, 400, 400):
        assert await cleaner.after(days) == {}
    with pytest.raises(StatusError):
        await cleaner.since()


async def test_a_younger_secret_waits_for_its_own_period(cleaner: Cleaner) -> None:
    """Not only for that of the cluster. One that is due within the day is looked at when it is due."""
    await cleaner.create("one")
    since = {"metadata": {"name": TRACKING, "namespace": "kube-system"}, "data": {"since": "2020-01-01"}}
    await cleaner.registry.client.create(TEAM, CONFIG_MAPS, since)
    assert await cleaner.after(29.75) == {}
    assert await cleaner.controller.reconcile(KEY) == Later(DAY_SECONDS / 4 + 1)
    assert INVALID_SINCE in (await cleaner.after(0.26) or {})


async def test_an_unreadable_day_of_the_cluster_is_today(cleaner: Cleaner) -> None:
    """The rest of the ConfigMap stays."""
    await cleaner.create("one")
    broken = {"metadata": {"name": TRACKING, "namespace": "kube-system"}, "data": {"since": "long ago", "a": "b"}}
    await cleaner.registry.client.create(TEAM, CONFIG_MAPS, broken)
    assert await cleaner.after(400) == {}
    assert await cleaner.since() == {"since": day_of(cleaner.now), "a": "b"}


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "secret": {"secretName": "one"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "one"}}]}}]},
        {"volumes": [{"name": "v", "csi": {"driver": "d", "nodePublishSecretRef": {"name": "one"}}}]},
        {"imagePullSecrets": [{"name": "one"}]},
        {"initContainers": [{"name": "c", "env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "one", "key": "token"}}}]}]},
        {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "one"}}]}]},
    ],
    ids=["volume", "projection", "driver", "images", "variable", "variables"],
)
async def test_a_secret_that_a_pod_names_stays(cleaner: Cleaner, spec: dict[str, Any]) -> None:
    """In a cluster that serves pods. A name in other fields is not one of a secret."""
    await cleaner.registry.establish(TEAM, _pods())
    await cleaner.create("one")
    await cleaner.after(0)
    pods = cleaner.registry.client
    await pods.create(TEAM, PODS, _pod("two", {"containers": [{"name": "one", "volumeMounts": [{"name": "one"}]}]}))
    await pods.create(TEAM, PODS, _pod("three", spec))
    assert await cleaner.after(100) == {}
    await pods.delete(TEAM, PODS, "default", "three")
    assert INVALID_SINCE in (await cleaner.after(1) or {})


async def test_it_runs_with_the_other_controllers() -> None:
    """With its period, and as the account of upstream's controller."""
    async with open_registry(MemoryStorage()) as registry:
        cleaner = Cleaner(registry)
        await cleaner.create("one", labels={INVALID_SINCE: "2020-01-01"})
        since = {"metadata": {"name": TRACKING, "namespace": "kube-system"}, "data": {"since": "2020-01-01"}}
        await registry.client.create(TEAM, CONFIG_MAPS, since)
        late = cleaner.now + PERIOD + DAY_SECONDS
        start_controllers(
            registry.supervisor,
            registry.client,
            registry.tap,
            clock=Clock(time=lambda: late),
            settings=ControllerSettings(token_period=PERIOD),
        )
        await registry.until_gone(TEAM, SECRETS, "default", "one")


def _pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _pods() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    names = {"plural": "pods", "singular": "pod", "kind": "Pod", "listKind": "PodList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": f"{CRDS.group}/{CRDS.version}",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pods.core"},
        "spec": {"group": "", "scope": "Namespaced", "names": names, "versions": [version]},
    }
