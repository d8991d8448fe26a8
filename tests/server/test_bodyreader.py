"""Bodies of requests are read within the limit of their size, however they arrive."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import ROOT
from kcp_py.server.bodyreader import MAX_BODY_BYTES, BodyReader, ClientDisconnectedError

pytestmark = pytest.mark.anyio


def chunk(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


GONE = {"type": "http.disconnect"}


async def read(*messages: dict[str, Any], declared: bytes | None = None, limit: int = MAX_BODY_BYTES) -> bytes:
    return await read_from(list(messages), declared=declared, limit=limit)


async def read_from(incoming: list[dict[str, Any]], *, declared: bytes | None = None, limit: int = MAX_BODY_BYTES) -> bytes:
    """Read a body; messages that are not read stay in the list."""

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    return await BodyReader(receive, ROOT, None).read(declared, limit)


async def test_body_in_pieces():
    """Pieces are joined in their order, empty ones included."""
    assert await read(chunk(b"a", more=True), chunk(b"", more=True), chunk(b"bc")) == b"abc"


async def test_no_body():
    """A request without a body has an empty one."""
    assert await read({"type": "http.request"}) == b""


@pytest.mark.parametrize("length", [b"11", b"9" * 40])
async def test_declared_length_above_the_limit(length):
    """A body that is declared too long is refused before anything of it is read."""
    with pytest.raises(StatusError) as caught:
        await read(declared=length, limit=10)
    assert (caught.value.code, caught.value.message) == (413, "Request entity too large: limit is 10")


@pytest.mark.parametrize("length", [b"", b"-1", b"+5", b"5 5", b"0x5", b"\xb2"])
async def test_declared_length_is_no_number(length):
    """A Content-Length that is not a number is 400."""
    with pytest.raises(StatusError) as caught:
        await read(chunk(b"a"), declared=length, limit=10)
    assert caught.value.code == 400


async def test_body_above_the_limit():
    """What arrives is counted, whatever was declared."""
    with pytest.raises(StatusError) as caught:
        await read(chunk(b"a" * 11), limit=10)
    assert caught.value.code == 413
    incoming = [chunk(b"a" * 6, more=True), chunk(b"a" * 5, more=True), chunk(b"never read")]
    with pytest.raises(StatusError):
        await read_from(incoming, limit=10)
    assert len(incoming) == 1


async def test_body_of_exactly_the_limit():
    """The limit itself is allowed."""
    assert len(await read(chunk(b"a" * 5, more=True), chunk(b"a" * 5), declared=b"10", limit=10)) == 10


@pytest.mark.parametrize("messages", [[GONE], [chunk(b"a", more=True), GONE]], ids=["before", "within"])
async def test_client_leaves_while_sending(messages):
    """A body that the client does not finish is not used."""
    with pytest.raises(ClientDisconnectedError):
        await read(*messages)
