"""Credentials of a logical cluster that is deleted and created again under its name, used while that happens."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.authz.conftest import ALICE, GROUP, binding
from tests.server.handlers.conftest import ADMIN, Api, Watch, options

pytestmark = pytest.mark.anyio

LIVES: Final = 3
CORE: Final = "/clusters/team-a/api/v1/namespaces/default"
SECRETS: Final = "/clusters/team-a/api/v1/secrets"
OBJECT: Final = "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
REVIEWS: Final = "/clusters/team-a/apis/authentication.k8s.io/v1/tokenreviews"


class Life(NamedTuple):
    """One cluster of the name, and what its users have kept.

    Attributes:
        number: counts the lives.
        tokens: of a service account: an ordinary one, one that is bound to a secret, and one that is in a secret.
        positions: queries that go on where a list of this life was.
    """

    number: int
    tokens: tuple[str, ...]
    positions: tuple[str, ...]


def marker(number: int) -> str:
    """A text that is in all secrets of a life."""
    return f"life-{number}-of-the-cluster"


async def begin(api: Api, number: int) -> Life:
    """Create the cluster. All of its objects have the same names in each life."""
    await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "keeper"}})
    bound = binding("keepers", "cluster-admin", "ServiceAccount:default:keeper", "User:alice")
    await api.ok("POST", f"/clusters/team-a/apis/{GROUP}/v1/clusterrolebindings", bound)
    annotations = {"marker": marker(number)}
    for name in ("one", "two"):
        await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": name, "annotations": annotations}})
    annotations["kubernetes.io/service-account.name"] = "keeper"
    made = {"metadata": {"name": "legacy", "annotations": annotations}, "type": "kubernetes.io/service-account-token"}
    await api.ok("POST", f"{CORE}/secrets", made)
    async with asyncio.timeout(60):
        while not (found := (await api.ok("GET", f"{CORE}/secrets/legacy")).get("data", {})).get("token"):
            await asyncio.sleep(0)
    tokens = [base64.b64decode(found["token"]).decode()]
    for spec in ({}, {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "one"}}):
        answer = await api.ok("POST", f"{CORE}/serviceaccounts/keeper/token", {"spec": spec})
        tokens.append(answer["status"]["token"])
    metadata = (await api.ok("GET", f"{SECRETS}?limit=1"))["metadata"]
    since = f"resourceVersion={metadata['resourceVersion']}"
    positions = (f"limit=1&continue={metadata['continue']}", f"{since}&resourceVersionMatch=Exact", f"{since}&watch=1&timeoutSeconds=1")
    return Life(number, tuple(tokens), positions)


async def end(api: Api) -> None:
    """Delete the cluster, and wait for its end."""
    await api.ok("DELETE", f"{OBJECT}?gracePeriodSeconds=0")
    async with asyncio.timeout(60):
        while (await api("GET", OBJECT)).status_code != 404:
            await asyncio.sleep(0)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a server with the user alice."""
    users = tmp_path / "users.csv"
    users.write_text("alice,alice,a1\n")
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


class Attackers:
    """Users of all lives until now, who go on with what they have kept."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.lives: list[Life] = []
        self.stopped = False
        self.codes: set[tuple[bool, int]] = set()
        """Whether a token is of the present life, and the answer to it."""

    def check(self, life: Life, text: str) -> None:
        """Nothing of a later life is in an answer to what an earlier one has left."""
        assert not any(marker(number) in text for number in range(life.number + 1, LIVES)), (life, text)

    async def meet(self, life: Life) -> None:
        """Let them know a life, and wait until the tokens of all lives were used in it."""
        self.lives.append(life)
        self.codes.clear()
        wanted = {(True, 200), (False, 401)} if len(self.lives) > 1 else {(True, 200)}
        async with asyncio.timeout(60):
            while not wanted <= self.codes:
                await asyncio.sleep(0)

    async def read(self) -> None:
        """Read with each token, and go on with each list, until stopped."""
        while not self.stopped:
            await asyncio.sleep(0)
            for life in list(self.lives):
                for token in life.tokens:
                    present = life is self.lives[-1]
                    answer = await self.api("GET", SECRETS, token=f"Bearer {token}")
                    self.codes.add((present, answer.status_code))
                    self.check(life, answer.text)
                for query in life.positions[:2]:
                    for token in (ALICE, ADMIN):
                        self.check(life, (await self.api("GET", f"{SECRETS}?{query}", token=token)).text)

    async def watch(self) -> None:
        """Watch with a token of the present life, again and again, until stopped."""
        while not self.stopped:
            await asyncio.sleep(0)
            if not self.lives:
                continue
            life = self.lives[-1]
            async with Watch(self.api, SECRETS, {"Authorization": f"Bearer {life.tokens[1]}"}) as watch:
                while watch.started["status"] == 200 and (event := await watch.next()) is not None:
                    self.check(life, json.dumps(event))


async def test_nothing_of_a_life_serves_in_a_later_one(api: Api) -> None:
    """Tokens, page tokens, resource versions and running watches show nothing of the next cluster of the name, at no moment."""
    attackers = Attackers(api)
    async with asyncio.TaskGroup() as group:
        group.create_task(attackers.read())
        group.create_task(attackers.watch())
        try:
            for number in range(LIVES):
                await live(api, attackers, number)
        finally:
            # Not by cancelling: a watch that receives an event in the same turn would go on.
            attackers.stopped = True


async def live(api: Api, attackers: Attackers, number: int) -> None:
    """One life from its beginning to its end."""
    life = await begin(api, number)
    for token in life.tokens:
        await api.ok("GET", SECRETS, token=f"Bearer {token}")
    await attackers.meet(life)
    for old in attackers.lives[:-1]:
        for token in old.tokens:
            await api.fails(401, "GET", SECRETS, token=f"Bearer {token}")
            assert "authenticated" not in (await api.ok("POST", REVIEWS, {"spec": {"token": token}}))["status"]
        # What follows a page, an exact list, and a watch, which says so in its first event.
        for query, code in zip(old.positions, (400, 410, 410), strict=True):
            assert f'"code":{code}' in (await api("GET", f"{SECRETS}?{query}", token=ALICE)).text
    await end(api)
    for token in life.tokens:
        await api.fails(401, "GET", SECRETS, token=f"Bearer {token}")
        await api.fails(401, "GET", "/clusters/root/api", token=f"Bearer {token}")
