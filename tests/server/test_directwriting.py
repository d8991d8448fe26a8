from __future__ import annotations

from functools import partial

from kcp_py.server.directwriting import body_taker, chunk, chunk_writer, response_writer


class Server:
    async def receive(self):
        return {}

    async def send(self, message):
        del message

    def take_body(self):
        return b""

    def write_chunk(self, data):
        return bool(data)

    def write_response(self, status, lines, body):
        return bool(status and lines and body)


class Plain:
    async def receive(self):
        return {}

    async def send(self, message):
        del message


def test_servers_that_offer_it():
    """What a server offers are methods of the object that `receive` and `send` are methods of."""
    server = Server()
    assert chunk_writer(server.send) == server.write_chunk
    assert response_writer(server.send) == server.write_response
    assert body_taker(server.receive) == server.take_body


def test_others():
    """There is none of a server that does not offer it, and none where a middleware wraps `send`: it would miss the response."""
    for send in (Plain().send, partial(Server().send), lambda message: Server().send(message)):
        assert chunk_writer(send) is None
        assert response_writer(send) is None
    assert body_taker(Plain().receive) is body_taker(partial(Server().receive)) is None


def test_chunks():
    """The length is hexadecimal."""
    assert chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
