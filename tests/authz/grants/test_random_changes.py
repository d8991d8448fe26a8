"""Random grants, labels, writes and clusters: what a client of a partial watch knows is compared with a naive model."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Delete
from tests.authz.conftest import ALICE, USERS, rule
from tests.authz.grants.conftest import GRANTS, config_maps, everywhere, grant, label
from tests.server.handlers.conftest import Api, Watch, options

pytestmark = pytest.mark.anyio

STEPS: Final = int(os.environ.get("GRANT_STEPS", "250"))
SEEDS: Final = int(os.environ.get("GRANT_SEEDS", "4"))
CLUSTERS: Final = tuple(f"team-{letter}" for letter in "abcdefgh")
SENTINEL: Final = "zz"
"""A cluster that the caller always sees."""
BOB: Final = {"kind": "User", "name": "bob"}

Place = tuple[str, str]
"""Cluster and name of an object."""


class Moment(NamedTuple):
    """The truth from one revision on."""

    revision: int
    visible: frozenset[str]
    objects: dict[Place, str]
    """-> resourceVersion"""

    @property
    def shown(self) -> dict[Place, str]:
        """The objects that the caller may see."""
        return {place: version for place, version in self.objects.items() if place[0] in self.visible}


class Truth:
    """Makes random changes, one at a time, and remembers the right answers after each."""

    def __init__(self, api: Api, dice: random.Random, weights: Sequence[float]) -> None:
        self.api = api
        self.dice = dice
        self.weights = weights
        self.labels: dict[str, str | None] = {}
        """Of each cluster that exists: the label `tier`."""
        self.grants: dict[str, dict[str, Any]] = {}
        self.objects: dict[Place, str] = {}
        self.moments: list[Moment] = []

    @property
    def storage(self) -> Any:
        return self.api.control_plane.backend.access.storage

    async def note(self) -> None:
        """Remember the truth at the present revision."""
        visible = frozenset(name for name in (*CLUSTERS, SENTINEL) if self.is_visible(name))
        self.moments.append(Moment(await self.storage.revision(), visible, dict(self.objects)))

    def is_visible(self, cluster: str) -> bool:
        """Whether a grant for alice to watch config maps selects a cluster."""
        return any(
            one["subjects"][0]["name"] == "alice"
            and one["rules"][0]["resources"] == ["configmaps"]
            and self.selects(one["clusters"], cluster)
            for one in self.grants.values()
        )

    def selects(self, clusters: dict[str, Any], cluster: str) -> bool:
        """Whether a selection contains a cluster."""
        if "names" in clusters:
            return bool(cluster in clusters["names"])
        if cluster not in self.labels:
            return False
        tier = self.labels[cluster]
        match clusters:
            case {"all": True}:
                return True
            case {"selector": {"matchLabels": {"tier": value}}}:
                return bool(tier == value)
            case _:
                return tier is None

    async def step(self) -> None:
        """One change."""
        changes = (self.write, self.remove, self.relabel, self.regrant, self.ungrant, self.end_cluster)
        (change,) = self.dice.choices(changes, self.weights)
        await change()

    async def write(self, cluster: str = "", name: str = "") -> None:
        """Create or update an object, and with it its cluster."""
        place = cluster or self.dice.choice(CLUSTERS), name or self.dice.choice("xyz")
        obj = {"metadata": {"name": place[1]}, "data": {"n": str(self.dice.random())}}
        path = config_maps(place[0])
        stored = await self.api.ok("PUT" if place in self.objects else "POST", f"{path}/{place[1]}" if place in self.objects else path, obj)
        self.labels.setdefault(place[0], None)
        self.objects[place] = stored["metadata"]["resourceVersion"]
        await self.note()

    async def remove(self) -> None:
        """Delete an object."""
        if self.objects:
            place = self.dice.choice(sorted(self.objects))
            await self.api.ok("DELETE", f"{config_maps(place[0])}/{place[1]}")
            del self.objects[place]
            await self.note()

    async def relabel(self) -> None:
        """Change the label of a cluster."""
        if self.labels:
            cluster, tier = self.dice.choice(sorted(self.labels)), self.dice.choice(("gold", "silver", None))
            await label(self.api, cluster, tier=tier)
            self.labels[cluster] = tier
            await self.note()

    async def regrant(self) -> None:
        """Create or replace a grant: of alice for config maps, and sometimes of another user or for another resource."""
        name = self.dice.choice("pqrs")
        clusters = self.dice.choice((
            {"names": self.dice.sample(CLUSTERS, 2)},
            {"names": self.dice.sample(CLUSTERS, 5)},
            {"selector": {"matchLabels": {"tier": self.dice.choice(("gold", "silver"))}}},
            {"selector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
            {"all": True},
        ))  # fmt: skip
        rules = [rule("list watch", self.dice.choice(("configmaps", "configmaps", "secrets")))]
        subjects = (BOB,) if self.dice.random() < 0.2 else ()
        obj = grant(name, clusters, *rules, **({"subjects": subjects} if subjects else {}))
        if name in self.grants:
            obj["metadata"]["resourceVersion"] = (await self.api.ok("GET", f"{GRANTS}/{name}"))["metadata"]["resourceVersion"]
            await self.api.ok("PUT", f"{GRANTS}/{name}", obj)
        else:
            await self.api.ok("POST", GRANTS, obj)
        self.grants[name] = obj["spec"]
        await self.note()

    async def ungrant(self) -> None:
        """Delete a grant."""
        if names := sorted(self.grants.keys() - {"always"}):
            name = self.dice.choice(names)
            await self.api.ok("DELETE", f"{GRANTS}/{name}")
            del self.grants[name]
            await self.note()

    async def end_cluster(self) -> None:
        """Delete what a cluster contains, then the cluster, as its controller does."""
        backend = self.api.control_plane.backend
        if not self.labels.keys() - {SENTINEL}:
            return
        cluster = self.dice.choice(sorted(self.labels.keys() - {SENTINEL}))
        keys = backend.tables.builtin_resources[("", "configmaps")].keys  # type: ignore[index]
        for place in sorted(place for place in self.objects if place[0] == cluster):
            await self.storage.transact([], [Delete(keys.object_key(Name(cluster), "default", place[1]))])
            del self.objects[place]
            await self.note()
        await self.storage.transact([], [Delete(backend.clusters.key(Name(cluster)))])
        del self.labels[cluster]
        await self.note()
        await backend.fanout.reached(await self.storage.revision())


class Client:
    """An informer of alice: lists, watches, resumes, and lists again where it has to."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.known: dict[Place, str] = {}
        self.revision = 0
        self.moment = 0
        """The moment up to which the events are explained."""
        self.watching: Watch | None = None
        self.relists = 0
        self.events = 0

    async def list(self) -> None:
        """Take the state of one revision, whole or in pages: it is exactly what the caller may see then."""
        params = {"limit": "3"} if self.truth.dice.random() < 0.5 else {}
        found: dict[Place, str] = {}
        while True:
            page = await self.truth.api.ok("GET", everywhere(), params=params, token=ALICE)
            for item in page["items"]:
                found[_place(item)] = item["metadata"]["resourceVersion"]
            if not (token := page["metadata"].get("continue", "")):
                break
            params["continue"] = token
        self.revision = int(page["metadata"]["resourceVersion"])
        self.moment = max(at for at, moment in enumerate(self.truth.moments) if moment.revision <= self.revision)
        assert found == self.truth.moments[self.moment].shown
        self.known = found
        self.relists += 1

    async def watch(self) -> None:
        """Begin or resume the watch."""
        params = {"resourceVersion": str(self.revision)}
        if self.truth.dice.random() < 0.5:
            params["allowWatchBookmarks"] = "true"
        self.watching = await Watch(self.truth.api, everywhere(), {"Authorization": ALICE}, **params).__aenter__()

    async def leave(self) -> None:
        """Close the connection; events under way are lost."""
        if self.watching is not None:
            await self.watching.__aexit__()
            self.watching = None

    async def follow(self, until: Place) -> None:
        """Take events until an object comes, listing again where the watch says so."""
        while until not in self.known:
            if self.watching is None:
                await self.watch()
            assert self.watching is not None
            event = await self.watching.next()
            assert event is not None, "the watch ended"
            if event["type"] == "ERROR":
                assert event["object"]["code"] == 410
                await self.leave()
                await self.list()
            else:
                self.take(event)

    def take(self, event: dict[str, Any]) -> None:
        """Apply an event, and check that the caller could see its object then."""
        self.revision = int(event["object"]["metadata"]["resourceVersion"])
        if event["type"] == "BOOKMARK":
            return
        self.events += 1
        place, version = _place(event["object"]), str(self.revision)
        if event["type"] == "DELETED":
            self.known.pop(place, None)
        else:
            self.known[place] = version
        self.explain(event["type"], place, version)

    def explain(self, kind: str, place: Place, version: str) -> None:
        """Find the moment of an event, at the earliest that of the one before, or after a resume that where it begins again."""
        moments = self.truth.moments
        for at in range(max(self.moment, 1), len(moments)):
            before, now = moments[at - 1], moments[at]
            if kind == "DELETED":
                if now.revision == int(version) and place in before.shown and place not in now.shown:
                    self.moment = at
                    return
            elif now.shown.get(place) == version:
                self.moment = at
                return
        raise AssertionError(f"{kind} {place} at {version} is not explained after {moments[self.moment].revision}")

    def resumed(self) -> None:
        """Events are sent again from the resourceVersion of the last one."""
        self.moment = max((at for at, moment in enumerate(self.truth.moments) if moment.revision <= self.revision), default=0)


def _place(obj: dict[str, Any]) -> Place:
    return obj["metadata"]["annotations"]["kcp.io/cluster"], obj["metadata"]["name"]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """A control plane without controllers: nothing but the test writes."""
    users = tmp_path / "users.csv"
    users.write_text(USERS)
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users, controllers=("-*",))) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_partial_watch_follows_every_change(api: Api, seed: int) -> None:
    """Each event is about an object that the caller may see at its revision, and the client ends with what a list shows."""
    dice = random.Random(seed)
    # Half of the runs are about clusters that come and go, with so few other changes that watches are resumed.
    truth = Truth(api, dice, (5, 1, 0.4, 0.15, 0.1, 3) if seed % 2 else (3, 1, 2, 1, 1, 1))
    truth.grants["always"] = grant("always", {"names": [SENTINEL]})["spec"]
    await api.ok("POST", GRANTS, grant("always", {"names": [SENTINEL]}))
    await truth.write(SENTINEL, "zero")
    client = Client(truth)
    await client.list()
    await client.watch()
    for step in range(1, STEPS + 1):
        await truth.step()
        if dice.random() < 0.1:
            await client.leave()
            client.resumed()
        if dice.random() < 0.15 or step == STEPS:
            await truth.write(SENTINEL, f"mark-{step}")
            await client.follow((SENTINEL, f"mark-{step}"))
            assert client.known == truth.moments[-1].shown
    await client.list()
    assert client.known == truth.moments[-1].shown
    await client.leave()
    assert client.events > STEPS / 10
