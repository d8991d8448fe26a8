"""Rules of a program: who makes a request, what users may do, which writes are refused or changed."""

from typing import Any, assert_type

import pytest

from kcp_py import (
    AdmissionPlugin,
    Attributes,
    Authenticator,
    Authorizer,
    ControlPlane,
    Credentials,
    Decision,
    GroupResource,
    GroupVersionResource,
    Operation,
    Options,
    RequestInfo,
    UserInfo,
    errors,
    parse_name,
)

MAPS = GroupVersionResource("", "v1", "configmaps")


class Names:
    """Takes the user from a header, which a proxy sets. It is an `Authenticator` by its method."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """The user that the header names."""
        if name := credentials.headers.get(b"x-name"):
            return UserInfo(name.decode(), groups=("team",))
        return None if credentials.peer_certificate_der is None else UserInfo("proxy")


class Readers:
    """Members of the group `team` may read. It is an `Authorizer` by its method."""

    async def authorize(self, user: UserInfo, cluster: object, info: RequestInfo) -> Decision | None:
        """An opinion about reads only."""
        if "team" in user.groups and info.verb in {"get", "list", "watch"}:
            return Decision(allowed=True, reason=f"{cluster} is public")
        return None


class Labels(AdmissionPlugin):
    """Labels config maps with the user who makes them, and refuses those without data."""

    name = "Labels"
    operations = frozenset[Operation]({"CREATE"})
    resources = (GroupResource("", "configmaps"),)

    async def mutate(self, attributes: Attributes) -> None:
        """Add the label."""
        assert_type(attributes.obj, dict[str, Any] | None)
        assert attributes.obj is not None
        attributes.obj["metadata"].setdefault("labels", {})["maker"] = attributes.user.name.replace(":", "-")

    async def validate(self, attributes: Attributes) -> None:
        """Refuse empty values."""
        if attributes.obj is not None and not attributes.obj.get("data"):
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "has no data")


async def main() -> None:
    """Make a config map that is labelled, and one that is refused."""
    authenticators: list[Authenticator] = [Names()]
    authorizers: list[Authorizer] = [Readers()]
    plane = ControlPlane(Options(storage="memory"), authenticators=authenticators, authorizers=authorizers, admission=[Labels()])
    async with plane as control_plane:
        team = parse_name("team-a")
        made = await control_plane.client.create(team, MAPS, {"metadata": {"name": "one", "namespace": "default"}, "data": {"a": "b"}})
        assert made["metadata"]["labels"] == {"maker": "system-apiserver"}
        with pytest.raises(errors.StatusError, match="has no data"):
            await control_plane.client.create(team, MAPS, {"metadata": {"name": "two", "namespace": "default"}})
