"""Secrets that ask for the token of a service account."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import orjson
import pytest

from kcp_py.admission import NamespaceLifecycle
from kcp_py.admission.tokensecrets import TokenSecrets
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import ObjectChange
from kcp_py.controllers import start_controllers
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.tokensecrets import SECRETS, TokenSecretController
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.request.user import UserInfo, controller_user
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import Registry, open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
TYPE = "kubernetes.io/service-account-token"
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"
_ACCOUNT = {"metadata": {"name": "builder", "namespace": "default"}}


async def sign(cluster: Name, namespace: str, account: str, uid: str, secret: str) -> str:
    """A token that says for what it was signed."""
    return f"{cluster}/{namespace}/{account}/{uid}/{secret}"


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    """A registry whose controllers run, and that signs tokens."""
    async with open_registry(MemoryStorage()) as opened:
        opened.access.admission = AdmissionChain((NamespaceLifecycle(opened.storage), TokenSecrets(sign)))
        start_controllers(opened.supervisor, opened.client, opened.tap)
        yield opened


def secret(name: str, account: str = "builder", *, kind: str = TYPE, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "annotations": {NAME: account, **annotations}}, "type": kind}


async def account(registry: Registry, name: str = "builder") -> dict[str, Any]:
    return await registry.client.create(TEAM, ACCOUNTS, {"metadata": {"name": name, "namespace": "default"}})


async def filled(registry: Registry, name: str) -> dict[str, Any]:
    """The secret, once it has a token."""
    found: dict[str, Any] = {}

    async def has_token() -> bool:
        found.clear()
        found.update(await registry.client.get(TEAM, SECRETS, "default", name))
        return "token" in (found.get("data") or {})

    await registry.until(has_token)
    return found


def decoded(obj: Mapping[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in obj["data"].items()}


async def test_a_secret_gets_a_token_of_its_account(registry: Registry) -> None:
    """With namespace and the uid of the account. The answer to the create has no token; a token that is taken out comes back."""
    uid = (await account(registry))["metadata"]["uid"]
    created = await registry.client.create(TEAM, SECRETS, secret("one"))
    assert "data" not in created
    found = await filled(registry, "one")
    token = f"{TEAM}/default/builder/{uid}/one"
    assert decoded(found) == {"token": token, "namespace": "default"}
    assert found["metadata"]["annotations"][UID] == uid
    emptied = await registry.client.update(TEAM, SECRETS, {**found, "data": {"mine": "eA=="}})
    assert emptied["data"] == {"mine": "eA=="}
    assert decoded(await filled(registry, "one")) == {"token": token, "namespace": "default", "mine": "x"}


async def test_a_secret_gets_the_certificates_that_its_namespace_publishes(registry: Registry) -> None:
    """Other ones are replaced, the token stays."""
    maps = GroupVersionResource("", "v1", "configmaps")
    await registry.client.create(TEAM, maps, {"metadata": {"name": "kube-root-ca.crt", "namespace": "default"}, "data": {"ca.crt": "PEM"}})
    await account(registry)
    await registry.client.create(TEAM, SECRETS, {**secret("one"), "data": {"ca.crt": "b2xk", "token": "dGlkeQ=="}})

    async def published() -> bool:
        return decoded(await registry.client.get(TEAM, SECRETS, "default", "one")).get("ca.crt") == "PEM"

    await registry.until(published)
    assert decoded(await registry.client.get(TEAM, SECRETS, "default", "one")) == {"ca.crt": "PEM", "token": "tidy", "namespace": "default"}


async def test_a_secret_goes_with_its_account(registry: Registry) -> None:
    """At its deletion; other secrets stay. One of the next account of the name is another one."""
    await account(registry)
    await account(registry, "other")
    for one in (secret("one"), secret("two", "other"), secret("opaque", kind="Opaque")):
        await registry.client.create(TEAM, SECRETS, one)
    await filled(registry, "one")
    await filled(registry, "two")
    await registry.client.delete(TEAM, ACCOUNTS, "default", "builder")
    await registry.until_gone(TEAM, SECRETS, "default", "one")
    names = {one["metadata"]["name"] for one in (await registry.client.list(TEAM, SECRETS, "default")).items}
    assert names == {"two", "opaque"}


@pytest.mark.parametrize("one", [secret("one", "none"), secret("one", **{UID: "of another one"})], ids=["no account", "another uid"])
async def test_a_secret_without_its_account_is_deleted(registry: Registry, one: dict[str, Any]) -> None:
    """Where there is no account of the name, or one with another uid than it names."""
    await account(registry)
    created = await registry.client.create(TEAM, SECRETS, one)
    await registry.until_gone(TEAM, SECRETS, "default", "one", created["metadata"]["uid"])


async def test_an_account_that_nothing_is_stored_of_has_tokens_too(registry: Registry) -> None:
    """That of its namespace."""
    uid = (await registry.client.get(TEAM, ACCOUNTS, "default", "default"))["metadata"]["uid"]
    await registry.client.create(TEAM, SECRETS, secret("one", "default"))
    found = await filled(registry, "one")
    assert found["metadata"]["annotations"][UID] == (await registry.client.get(TEAM, ACCOUNTS, "default", "default"))["metadata"]["uid"]
    assert uid


def named(obj: Mapping[str, Any]) -> list[str]:
    """The secrets that an account names."""
    return [one["name"] for one in obj.get("secrets") or []]


async def test_an_account_loses_the_reference_to_a_deleted_secret(registry: Registry) -> None:
    """The references to other secrets stay, and so does that to a secret that holds no token."""
    made = await account(registry)
    for one in (secret("one"), secret("two"), secret("opaque", kind="Opaque")):
        await registry.client.create(TEAM, SECRETS, one)
    await filled(registry, "one")
    await filled(registry, "two")
    references = [{"name": name} for name in ("one", "two", "opaque", "never")]
    await registry.client.update(TEAM, ACCOUNTS, {**made, "secrets": references})
    await registry.client.delete(TEAM, SECRETS, "default", "opaque")
    await registry.client.delete(TEAM, SECRETS, "default", "one")

    async def removed() -> bool:
        return named(await registry.client.get(TEAM, ACCOUNTS, "default", "builder")) == ["two", "opaque", "never"]

    await registry.until(removed)


async def test_the_default_account_loses_the_reference_too(registry: Registry) -> None:
    """It was stored when the reference was added. The last reference leaves no list behind."""
    await registry.client.create(TEAM, SECRETS, secret("one", "default"))
    await filled(registry, "one")
    await registry.client.patch(TEAM, ACCOUNTS, "default", "default", document={"secrets": [{"name": "one"}]})
    await registry.client.delete(TEAM, SECRETS, "default", "one")

    async def removed() -> bool:
        return "secrets" not in await registry.client.get(TEAM, ACCOUNTS, "default", "default")

    await registry.until(removed)


@pytest.mark.parametrize("uid", ["of another one", ""], ids=["of another account", "of any account"])
async def test_the_account_must_be_that_of_the_deleted_secret(uid: str) -> None:
    """A secret that names the uid of an account of the past has no reference in the present one; without a uid the name decides."""
    async with open_registry(MemoryStorage()) as registry:
        controller = TokenSecretController(registry.client)
        made = await registry.client.create(TEAM, ACCOUNTS, {**_ACCOUNT, "secrets": [{"name": "one"}, {"name": "two"}]})
        value = orjson.dumps(secret("one", **({UID: uid} if uid else {})))
        resource = SECRETS.group_resource
        keys = list(controller.keys(ObjectChange(TEAM, resource, "default", "one", value, None)))
        assert keys == list(controller.keys(ObjectChange(TEAM, resource, "default", "one", None, value)))
        await controller.reconcile(keys[0])
        after = await registry.client.get(TEAM, ACCOUNTS, "default", "builder")
        assert named(after) == (["one", "two"] if uid else ["two"])
        await controller.reconcile(keys[0])
        assert await registry.client.get(TEAM, ACCOUNTS, "default", "builder") == after
        assert after["metadata"]["uid"] == made["metadata"]["uid"]


async def test_an_account_that_has_gone_needs_no_reference(registry: Registry) -> None:
    """A deletion of both in either order ends without a failure."""
    await account(registry)
    await registry.client.create(TEAM, SECRETS, secret("one"))
    await filled(registry, "one")
    controller = TokenSecretController(registry.client)
    value = orjson.dumps(secret("one"))
    for one, previous in ((value, None), (None, value)):
        list(controller.keys(ObjectChange(TEAM, SECRETS.group_resource, "default", "one", one, previous)))
    await registry.client.delete(TEAM, ACCOUNTS, "default", "builder")
    await registry.until_gone(TEAM, SECRETS, "default", "one")
    assert await controller.reconcile(Key(TEAM, "default", "one")) == 0


@pytest.mark.parametrize("user", [UserInfo("alice", "", ("system:masters",)), UserInfo(controller_user("tokens-controller").name, "", ())])
async def test_no_other_user_gets_a_token_by_an_update(user: UserInfo) -> None:
    """Neither an administrator, nor an account of a tenant with the name of the controller's."""
    async with open_registry(MemoryStorage()) as registry:
        registry.access.admission = AdmissionChain((NamespaceLifecycle(registry.storage), TokenSecrets(sign)))
        client = registry.client.acting_as(user)
        created = await registry.client.create(TEAM, SECRETS, secret("one", **{UID: "1"}))
        updated = await client.update(TEAM, SECRETS, {**created, "data": {"a": "eA=="}})
        assert updated["data"] == {"a": "eA=="}


async def test_only_secrets_with_tokens_are_remembered(registry: Registry) -> None:
    """What an account takes along follows from the changes of secrets, and nothing is left of those that have gone."""
    controller = TokenSecretController(registry.client)
    value = b'{"metadata":{},"type":"kubernetes.io/service-account-token"}'
    resource = SECRETS.group_resource

    def change(name: str, value: bytes | None) -> ObjectChange:
        return ObjectChange(TEAM, resource, "default", name, value, None)

    def gone() -> list[Key]:
        return list(controller.keys_of_account(ObjectChange(TEAM, ACCOUNTS.group_resource, "default", "builder", None, b"{}")))

    assert list(controller.keys(change("opaque", b'{"type":"Opaque"}'))) == []
    assert list(controller.keys(change("one", value))) == [Key(TEAM, "default", "one")]
    assert gone() == [Key(TEAM, "default", "one")]
    assert list(controller.keys_of_account(ObjectChange(TEAM, ACCOUNTS.group_resource, "default", "builder", b"{}", None))) == []
    assert list(controller.keys(change("one", None))) == []
    assert gone() == []
    with pytest.raises(StatusError):
        await registry.client.get(TEAM, SECRETS, "default", "one")
