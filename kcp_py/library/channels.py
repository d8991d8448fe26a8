"""`Channels`: several streams over one WebSocket, as `kubectl exec` and `kubectl attach` use it.

The first byte of each message is the channel: 0 standard input, 1 output, 2 error output, 3 the end as a Status, 4 the size of the
terminal. In version 5, a message of channel 255 closes the channel that its second byte names.

Source: k8s.io/apimachinery `pkg/util/remotecommand` (protocols), k8s.io/client-go `tools/remotecommand/websocket.go`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.server.connection import Connection

PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io", "v4.base64.channel.k8s.io")
"""Best first."""
_END: Final = 3
_CLOSE: Final = 255


class Message(NamedTuple):
    """What the client has sent."""

    channel: int
    """`Channels.STDIN` or `Channels.RESIZE`, or any other number that the client chooses."""
    data: bytes
    closed: bool = False
    """Whether the channel is closed: nothing else comes."""


class Channels:
    """The streams of one connection."""

    STDIN: Final = 0
    STDOUT: Final = 1
    STDERR: Final = 2
    RESIZE: Final = 4

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._base64 = False

    async def open(self) -> None:
        """Choose the protocol and begin.

        Raises:
            StatusError: 400 for a request that is not for a WebSocket, or with none of `PROTOCOLS`.
        """
        offered = self._connection.protocols
        protocol = next((one for one in PROTOCOLS if one in offered), "")
        if not self._connection.websocket or not protocol:
            raise errors.bad_request(f"a WebSocket with one of the subprotocols {', '.join(PROTOCOLS)} is required")
        self._base64 = ".base64." in protocol
        await self._connection.start(b"text/plain" if self._base64 else b"application/octet-stream", protocol=protocol)

    async def write(self, data: bytes | str, channel: int = 1) -> None:
        """Send more of a stream, by default of `STDOUT`."""
        content = data.encode() if isinstance(data, str) else data
        if self._base64:
            await self._connection.send(b"%d" % channel + base64.b64encode(content))
        else:
            await self._connection.send(bytes((channel,)) + content)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """What the client sends, until it leaves."""
        async for message in self._connection:
            if not message:
                continue
            if self._base64:
                try:
                    yield Message(message[0] - ord("0"), base64.b64decode(message[1:], validate=True))
                except binascii.Error:
                    continue
            elif message[0] == _CLOSE and self._connection.protocol.startswith("v5.") and len(message) > 1:
                yield Message(message[1], b"", closed=True)
            else:
                yield Message(message[0], message[1:])

    async def exit(self, code: int = 0) -> None:
        """Tell how the command has ended. Nothing may be written after it."""
        status: dict[str, Any] = {"metadata": {}, "status": "Success"}
        if code:
            causes = [{"reason": "ExitCode", "message": str(code)}]
            message = f"command terminated with non-zero exit code: exit status {code}"
            status = {"metadata": {}, "status": "Failure", "message": message, "reason": "NonZeroExitCode", "details": {"causes": causes}}
        await self.write(orjson.dumps(status), _END)
