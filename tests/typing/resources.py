"""A resource that is served by code, with a subresource that takes a POST."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, assert_type

from kcp_py import (
    ComputedResource,
    ControlPlane,
    GroupVersionKind,
    GroupVersionResource,
    ObjectEvent,
    Options,
    ReadRequest,
    RestStorage,
    UserInfo,
    WriteRequest,
    errors,
    parse_name,
)

QUOTES = GroupVersionResource("example.com", "v1", "quotes")


class Quotes(RestStorage):
    """Two quotes, which never change."""

    def __init__(self) -> None:
        self.texts = {"first": "Simple is better than complex.", "second": "Readability counts."}

    async def list(self, request: ReadRequest) -> Sequence[dict[str, Any]]:
        """All quotes."""
        assert_type(request.context.user, UserInfo)
        return [{"metadata": {"name": name}, "spec": {"text": text}} for name, text in self.texts.items()]

    async def get(self, request: ReadRequest) -> dict[str, Any]:
        """One quote."""
        if (name := request.target.name) not in self.texts:
            raise errors.not_found(request.target.resource.group_resource, name)
        return {"metadata": {"name": name}, "spec": {"text": self.texts[name]}}

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        """The quotes as ADDED."""
        for quote in await self.list(request):
            yield ObjectEvent("ADDED", quote)


class Reviews(RestStorage):
    """`POST …/quotes/NAME/review` answers with a verdict."""

    async def create(self, request: WriteRequest, obj: dict[str, Any]) -> dict[str, Any]:
        """The verdict, by the user who asks."""
        assert_type(request.context.user.name, str)
        return {**obj, "status": {"by": request.context.user.name}}


async def main() -> None:
    """Read the quotes through the client."""
    quotes = ComputedResource(
        group="example.com",
        version="v1",
        resource="quotes",
        kind="Quote",
        rest=Quotes(),
        namespaced=False,
        subresources={"review": Reviews()},
        subresource_kinds={"review": GroupVersionKind("example.com", "v1", "Review")},
    )
    async with ControlPlane(Options(storage="memory"), apis=[quotes]) as control_plane:
        found = await control_plane.client.get(parse_name("team-a"), QUOTES, "", "first")
        assert found["kind"] == "Quote"
        assert len((await control_plane.client.list(parse_name("team-a"), QUOTES)).items) == 2
