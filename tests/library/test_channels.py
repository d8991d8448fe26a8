"""The protocols of `kubectl exec`, message by message."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from kcp_py import Channels, Connection
from kcp_py.apimachinery.errors import StatusError

pytestmark = pytest.mark.anyio


class Socket:
    """The part of a `Connection` that channels use."""

    websocket = True

    def __init__(self, protocols: Sequence[str], *received: bytes) -> None:
        self.protocols = protocols
        self.protocol = ""
        self.sent: list[bytes] = []
        self._received = received

    async def start(self, _content_type: bytes, *, protocol: str) -> None:
        self.protocol = protocol

    async def send(self, data: bytes) -> None:
        self.sent.append(data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for one in self._received:
            yield one


def channels(socket: Socket) -> Channels:
    return Channels(cast("Connection", socket))


@pytest.mark.parametrize(
    ("protocol", "received", "expected", "sent"),
    [
        ("v5.channel.k8s.io", [b"\x00in", b"\xff\x00", b""], [(0, b"in", False), (0, b"", True)], b"\x01out"),
        ("v4.channel.k8s.io", [b"\x00in", b"\xff\x00"], [(0, b"in", False), (255, b"\x00", False)], b"\x01out"),
        ("v4.base64.channel.k8s.io", [b"0aW4=", b"0!"], [(0, b"in", False)], b"1b3V0"),
    ],
    ids=["v5 closes channels", "v4", "base64"],
)
async def test_messages_have_channels(protocol: str, received: list[bytes], expected: list[Any], sent: bytes) -> None:
    """Both directions, in each protocol. Text that is not base64 is dropped."""
    socket = Socket(["other", protocol], *received)
    opened = channels(socket)
    await opened.open()
    assert socket.protocol == protocol
    assert [tuple(message) async for message in opened] == expected
    await opened.write("out")
    assert socket.sent == [sent]


async def test_the_end_is_a_status() -> None:
    """Success, or the exit code where clients look for it."""
    socket = Socket(["v4.channel.k8s.io"])
    opened = channels(socket)
    await opened.open()
    await opened.exit()
    await opened.exit(3)
    assert [one[0] for one in socket.sent] == [3, 3]
    assert json.loads(socket.sent[0][1:]) == {"metadata": {}, "status": "Success"}
    assert json.loads(socket.sent[1][1:])["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


async def test_other_clients_are_refused() -> None:
    """A client without a known protocol gets a 400."""
    with pytest.raises(StatusError) as refused:
        await channels(Socket(["v1.example.com"])).open()
    assert refused.value.code == 400
