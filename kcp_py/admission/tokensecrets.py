"""`TokenSecrets`: signs the token of a secret that the controller of token secrets fills.

A secret of type `kubernetes.io/service-account-token` has no token when it is created. Callers who may create secrets and not read them
must not get one in the answer. The token is therefore signed when the controller, which has found the account, writes the secret again.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.core.tokensecrets import ACCOUNT_NAME, ACCOUNT_UID, CONTROLLER, TOKEN_KEY, TYPE
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.request.user import SYSTEM_MASTERS, controller_user

Sign = Callable[[Name, str, str, str, str], Awaitable[str]]
"""(cluster, namespace, name and uid of a service account, name of the secret) -> its token without an end. May raise StorageError."""

_CONTROLLER: Final = controller_user(CONTROLLER).name


class TokenSecrets(AdmissionPlugin):
    """Adds the token to a secret that the controller writes without one."""

    name = "TokenSecrets"
    conforming = True
    operations = frozenset[Operation]({"UPDATE"})
    resources = frozenset({GroupResource("", "secrets")})

    def __init__(self, sign: Sign) -> None:
        """Make the plugin. `sign` signs tokens."""
        self._sign = sign

    async def mutate(self, attributes: Attributes) -> None:
        """Sign the token.

        Raises:
            StorageError: the keys cannot be read, or not be written.
        """
        obj, user = attributes.obj, attributes.user
        # An account of a tenant may have the name of the controller, but not its group.
        if obj is None or user.name != _CONTROLLER or SYSTEM_MASTERS not in user.groups or attributes.dry_run:
            return
        annotations = obj["metadata"].get("annotations") or {}
        account, uid = annotations.get(ACCOUNT_NAME), annotations.get(ACCOUNT_UID)
        if obj.get("type") != TYPE or not account or not uid or (obj.get("data") or {}).get(TOKEN_KEY):
            return
        token = await self._sign(attributes.request.target.cluster_state.name, attributes.namespace, account, uid, attributes.name)
        obj["data"] = {**(obj.get("data") or {}), TOKEN_KEY: base64.b64encode(token.encode()).decode()}
