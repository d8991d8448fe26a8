"""Mistakes that a type checker finds. Each line with one names the error behind `# E:`."""

from kcp_py import WILDCARD, AdmissionPlugin, Client, ControlPlane, Exchange, GroupVersionResource, Handler, Options, RestStorage, UserInfo

MAPS = GroupVersionResource("", "v1", "configmaps")


class Nothing:
    """Neither a plugin nor an authenticator."""


class Answering(AdmissionPlugin):
    """Its step answers where it should raise."""

    def validate(self, attributes: object) -> bool:  # E: Return type "bool" of "validate" incompatible
        """Check nothing."""


class Untyped(RestStorage):
    """Gives text instead of an object."""

    async def get(self, request: object) -> str:  # E: Return type "Coroutine[Any, Any, str]" of "get" incompatible
        """No object."""
        return str(request)


def no_filter(handler: Handler) -> None:
    """Returns no handler."""


async def calls(client: Client, exchange: Exchange) -> None:
    """Calls that fail, or do something else than they seem to."""
    ControlPlane()  # E: Missing positional argument "options"
    ControlPlane(Options(), [])  # E: Too many positional arguments for "ControlPlane"
    ControlPlane(Options(storage=1))  # E: Argument "storage" to "Options" has incompatible type
    ControlPlane(Options(), admission=[Nothing()])  # E: List item 0 has incompatible type "Nothing"; expected "AdmissionPlugin"
    ControlPlane(Options(), authenticators=[Nothing()])  # E: List item 0 has incompatible type "Nothing"; expected "Authenticator"
    ControlPlane(Options(), filters=[no_filter])  # E: List item 0 has incompatible type
    await client.get("team-a", MAPS, "default", "one")  # E: Argument 1 to "get" of "Client" has incompatible type "str"; expected "Name"
    await client.create(WILDCARD, MAPS, {})  # E: Argument 1 to "create" of "Client" has incompatible type "Wildcard"
    exchange.respond(200, b"")  # E: must be used
    await exchange.respond(200, "text")  # E: Argument 2 to "respond" of "Exchange" has incompatible type "str"; expected "bytes"
    UserInfo("me", groups="admins")  # E: Argument "groups" to "UserInfo" has incompatible type "str"
