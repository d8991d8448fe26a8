from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.server.websocket import WebSocket

pytestmark = pytest.mark.anyio


class Client:
    """The client, as the server reports it."""

    def __init__(self, *incoming: dict[str, Any], subprotocols: tuple[str, ...] = (), gone: bool = False) -> None:
        self.incoming = list(incoming)
        self.sent: list[Any] = []
        self.gone = gone
        extensions: dict[str, Any] = {"websocket.http.response": {}}
        self.scope = {"type": "websocket", "scheme": "wss", "subprotocols": list(subprotocols), "extensions": extensions}
        self.websocket = WebSocket(self.scope, self.receive, self.send)

    async def receive(self) -> Any:
        return self.incoming.pop(0)

    async def send(self, message: Any) -> None:
        if self.gone:
            raise OSError
        self.sent.append(message)


def test_scope() -> None:
    """The filters see a GET of HTTP."""
    client = Client()
    scope = client.websocket.scope(client.scope)
    assert (scope["type"], scope["method"], scope["scheme"], scope["state"]) == ("http", "GET", "https", {})


async def test_receive() -> None:
    """There is no body, and what the client says is thrown away until it leaves."""
    client = Client({"type": "websocket.receive", "text": "hello"}, {"type": "websocket.disconnect", "code": 1000})
    assert await client.websocket.receive() == {"type": "http.request", "body": b"", "more_body": False}
    assert await client.websocket.receive() == {"type": "http.disconnect"}


async def test_text_messages() -> None:
    """JSON goes in text, one event a message."""
    client = Client(subprotocols=("a",))
    client.websocket.split()
    await client.websocket.accept(b"application/json", 0)
    await client.websocket.message("ü\n".encode())
    await client.websocket.close()
    assert client.sent == [
        {"type": "websocket.accept", "subprotocol": "a", "headers": []},
        {"type": "websocket.send", "text": "ü\n"},
        {"type": "websocket.close", "code": 1000},
    ]


async def test_binary_messages() -> None:
    """Protobuf goes in binary messages, which need no length."""
    client = Client()
    await client.websocket.accept(b"application/vnd.kubernetes.protobuf;stream=watch", 4)
    await client.websocket.message(b"\0\0\0\1x")
    assert client.sent == [{"type": "websocket.accept", "subprotocol": None, "headers": []}, {"type": "websocket.send", "bytes": b"x"}]


async def test_client_that_is_gone() -> None:
    """Sending to a client that has left does nothing."""
    client = Client(gone=True)
    await client.websocket.accept(b"application/json", 0)
    await client.websocket.message(b"{}")
    await client.websocket.close()


@pytest.mark.parametrize(
    ("origin", "subprotocols", "code"),
    [
        pytest.param(b"http://example.com", (), 0, id="browser"),
        pytest.param(b"http://example.com", ("a",), 0, id="one protocol"),
        pytest.param(None, (), 403, id="no origin"),
        pytest.param(b"null", (), 403, id="opaque origin"),
        pytest.param(b"\xff", (), 403, id="no text"),
        pytest.param(b"http://example.com", ("a", "b"), 400, id="several protocols"),
    ],
)
def test_handshake(origin: bytes | None, subprotocols: tuple[str, ...], code: int) -> None:
    """The handshake is looked at as upstream's library does."""
    websocket = Client(subprotocols=subprotocols).websocket
    websocket.split()
    headers = {} if origin is None else {b"origin": origin}
    if not code:
        websocket.check(headers)
        return
    with pytest.raises(StatusError) as caught:
        websocket.check(headers)
    assert caught.value.code == code
