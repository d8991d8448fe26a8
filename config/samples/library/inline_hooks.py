"""Functions instead of webhooks: who a caller is, what it may do, and why a write is refused.

Start it with `python config/samples/library/inline_hooks.py 6443`, and try as a user (the token is the name of the user):

    alias k='kubectl --server https://127.0.0.1:6443/clusters/team-a --certificate-authority .kcp/pki/ca.crt --token alice'
    k create configmap prices --from-literal currency=gold
"""

import asyncio
import sys

from kcp_py import (
    WILDCARD,
    Attributes,
    ControlPlane,
    Credentials,
    InFlight,
    Name,
    Options,
    RequestInfo,
    UserInfo,
    Wildcard,
    errors,
    fielderrors,
    serve,
)

plane = ControlPlane(
    Options(storage="memory", secure_port=int(sys.argv[1]), logical_cluster_total_object_limit=100),
    batteries=["namespaces", "core"],
    fairness=InFlight(reads=200, writes=50),
)
CURRENCIES = {"silver", "copper"}


@plane.authenticator
def by_name(credentials: Credentials) -> UserInfo | None:
    """The token is the name. Real tokens are secrets."""
    token = credentials.headers.get(b"authorization", b"").removeprefix(b"Bearer ").decode()
    if token == "nobody":  # noqa: S105 - the name of a user
        raise errors.unauthorized()
    return UserInfo(token, groups=("traders",)) if token else None


@plane.authorizer
async def in_own_cluster(user: UserInfo, cluster: Name | Wildcard, info: RequestInfo) -> bool | None:
    """Traders may read everywhere, and write in clusters of teams. This function permits no request over all clusters."""
    if "traders" not in user.groups or cluster is WILDCARD:
        return None
    return True if cluster.startswith("team-") else info.verb in {"get", "list", "watch"}


@plane.mutating("configmaps", operations=["CREATE"])
def stamp(attributes: Attributes) -> None:
    """Every ConfigMap says who has made it."""
    assert attributes.obj is not None
    attributes.obj["metadata"].setdefault("labels", {})["trader"] = attributes.user.name


@plane.validating("configmaps", namespaces=["default"])
async def currency(attributes: Attributes) -> list[fielderrors.FieldError]:
    """Answered with 422 and the field."""
    found = ((attributes.obj or {}).get("data") or {}).get("currency", "silver")
    return [] if found in CURRENCIES else [fielderrors.not_supported("data.currency", found, sorted(CURRENCIES))]


@plane.validating("secrets", operations=["DELETE"], labels="keep=yes", thread=True)
def keep(attributes: Attributes) -> str | None:
    """A plain function that waits for something runs in a thread. Answered with 403 and the text."""
    return f"{attributes.user.name} asked to keep it"


async def main() -> None:
    """Serve until interrupted."""
    async with plane:
        await serve(plane)


if __name__ == "__main__":
    asyncio.run(main())
