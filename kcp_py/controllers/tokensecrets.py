"""Controller `serviceaccount-token-controller`: secrets that ask for the token of a service account get it, and go with the account.

An account that names a secret in its list `secrets` loses the reference when the secret is deleted.

Source: kubernetes `pkg/controller/serviceaccount/tokens_controller.go`. The token itself is signed by the server when this controller
writes a secret that lacks one (`admission.tokensecrets`), since a controller in a process of its own has no keys.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apis.core.namespaceobjects import ROOT_CA, ROOT_CA_KEY
from kcp_py.apis.core.tokensecrets import ACCOUNT_NAME, ACCOUNT_UID, NAMESPACE_KEY, TOKEN_KEY, TYPE
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import SERVICE_ACCOUNT_SECRETS
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name

SECRETS: Final = GroupVersionResource("", "v1", "secrets")
_ACCOUNTS: Final = GroupVersionResource("", "v1", "serviceaccounts")
_CONFIG_MAPS: Final = GroupVersionResource("", "v1", "configmaps")
_TYPE: Final = orjson.dumps(TYPE)
"""In the bytes of these secrets, and of few others."""


class TokenSecretController:
    """Fills and deletes the secrets with tokens. It remembers which namespaces have any, so that other accounts cost nothing."""

    name = SERVICE_ACCOUNT_SECRETS
    per_cluster = 4

    def __init__(self, client: Client) -> None:
        """Make the controller. `client` is that of all clusters."""
        self._client = client
        self._secrets: dict[tuple[Name, str], dict[str, _Account]] = {}
        """Cluster and namespace -> name of a secret -> its account."""
        self._removed: dict[Key, set[_Account]] = {}
        """Secrets that were deleted -> their accounts, which may still name them."""

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Secrets with tokens, and accounts that come and go."""
        return (
            ControllerSource(SECRETS, self.keys, ObjectFilter(contains=((_TYPE,),))),
            ControllerSource(_ACCOUNTS, self.keys_of_account, ObjectFilter(contains=((b"\x00",),))),
        )

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The secret, if it asks for a token."""
        place = (change.cluster, change.namespace)
        key = Key(change.cluster, change.namespace, change.name)
        if change.value is not None and _TYPE in change.value:
            self._secrets.setdefault(place, {})[change.name] = _account_of(change.value)
            yield key
        elif (known := self._secrets.get(place)) is not None:
            account = known.pop(change.name, None)
            if not known:
                del self._secrets[place]
            if account is not None and account.name and change.value is None:
                self._removed.setdefault(key, set()).add(account)
                yield key

    def keys_of_account(self, change: ObjectChange) -> Iterable[Key]:
        """The secrets in the namespace of an account that has gone. Another one of its name may have come in the same moment."""
        if change.value is None:
            for name in self._secrets.get((change.cluster, change.namespace), ()):
                yield Key(change.cluster, change.namespace, name)

    async def reconcile(self, key: Key) -> int:
        for account in tuple(self._removed.get(key, ())):
            await self._remove_reference(key, account)
            self._removed[key].discard(account)
        self._removed.pop(key, None)
        return await self._fill(key)

    async def _remove_reference(self, key: Key, account: _Account) -> None:
        """Take a deleted secret out of the list of its account, which may have gone or be another one by now."""
        found = await find(self._client, _ACCOUNTS, key._replace(name=account.name))
        if found is None or (account.uid and account.uid != found["metadata"]["uid"]):
            return
        references = found.get("secrets") or []
        kept = [reference for reference in references if reference.get("name") != key.name]
        if len(kept) == len(references):
            return
        try:
            await self._client.update(key.cluster, _ACCOUNTS, {**found, "secrets": kept})
        except StatusError as error:
            if error.code != 404:
                raise

    async def _fill(self, key: Key) -> int:
        """Give a secret what it lacks, or delete it where it has no account."""
        secret = await find(self._client, SECRETS, key)
        if secret is None or secret.get("type") != TYPE or secret["metadata"].get("deletionTimestamp"):
            return 0
        metadata = secret["metadata"]
        annotations = metadata.get("annotations") or {}
        account = await find(self._client, _ACCOUNTS, key._replace(name=annotations.get(ACCOUNT_NAME, "")))
        if account is None or (annotations.get(ACCOUNT_UID) or account["metadata"]["uid"]) != account["metadata"]["uid"]:
            await self._delete(key, metadata["uid"])
            return 0
        data = {**(secret.get("data") or {}), **await self._missing(key, secret.get("data") or {})}
        if data == secret.get("data") and data.get(TOKEN_KEY) and annotations.get(ACCOUNT_UID):
            return 0
        annotations = {**annotations, ACCOUNT_UID: account["metadata"]["uid"]}
        await self._client.update(key.cluster, SECRETS, {**secret, "metadata": {**metadata, "annotations": annotations}, "data": data})
        return 0

    async def _missing(self, key: Key, data: Mapping[str, str]) -> Mapping[str, str]:
        """What a secret lacks of its data, without the token: the namespace, and the certificates that the server has now."""
        found = {}
        if not data.get(NAMESPACE_KEY):
            found[NAMESPACE_KEY] = _encoded(key.namespace)
        published = await find(self._client, _CONFIG_MAPS, key._replace(name=ROOT_CA))
        if published is not None and (bundle := (published.get("data") or {}).get(ROOT_CA_KEY)):
            found[ROOT_CA_KEY] = _encoded(bundle)
        return found

    async def _delete(self, key: Key, uid: str) -> None:
        try:
            await self._client.delete(key.cluster, SECRETS, key.namespace, key.name, uid=uid)
        except StatusError as error:
            if error.code not in {404, 409}:
                raise


class _Account(NamedTuple):
    """The account of a secret, as the annotations of the secret name it."""

    name: str
    uid: str
    """Empty for any."""


def _account_of(value: bytes) -> _Account:
    try:
        annotations = orjson.loads(value)["metadata"]["annotations"]
        return _Account(str(annotations[ACCOUNT_NAME]), str(annotations.get(ACCOUNT_UID, "")))
    except (ValueError, TypeError, KeyError, AttributeError):
        # The secret asks for no account yet, or other software has stored something else.
        return _Account("", "")


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
