from __future__ import annotations

import asyncio

import pytest
import yaml
from structlog.testing import capture_logs

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.server.bodyreader import ClientDisconnectedError
from kcp_py.server.filters.errors import ErrorsFilter

pytestmark = pytest.mark.anyio


def failing(error: BaseException):
    async def app(_exchange):
        raise error

    return ErrorsFilter(app)


async def test_status_error(ask):
    """An API error is answered as it is."""
    answer = await ask(failing(errors.not_found(GroupResource("", "pods"), "x")))
    assert answer.status == 404
    assert answer.header("content-type") == "application/json"
    assert answer.json()["message"] == 'pods "x" not found'
    assert answer.complete


async def test_negotiated_encoding(ask):
    """The Status comes in the encoding that the client accepts, and in JSON if it accepts none of them."""
    error = failing(errors.bad_request("no"))
    assert yaml.safe_load((await ask(error, headers=[("accept", "application/yaml")])).body)["reason"] == "BadRequest"
    assert (await ask(error, headers=[("accept", "text/html")])).json()["reason"] == "BadRequest"
    assert b"\n  " in (await ask(error, headers=[("user-agent", "curl/8")])).body
    assert (await ask(error, "/?a=%zz")).json()["reason"] == "BadRequest"


async def test_unknown_path(ask):
    """An unserved path is plain text, with the headers of every response."""
    answer = await ask(failing(errors.unknown_path()))
    assert (answer.status, answer.body) == (404, b"404 page not found\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"
    assert answer.header("audit-id")
    assert answer.header("cache-control") == "no-cache, private"


async def test_retry_after(ask):
    """A retry is told in the header."""
    assert (await ask(failing(errors.too_many_requests("later", 1)))).header("retry-after") == "1"


async def test_unexpected_error(ask):
    """Nothing of an unexpected error reaches the client; the log has it, under the audit id of the response."""
    with capture_logs() as logs:
        answer = await ask(failing(KeyError("/registry/secrets/other-tenant")))
    assert (answer.status, answer.json()["reason"]) == (500, "InternalError")
    assert answer.json()["message"].startswith("Internal error occurred: ")
    assert b"other-tenant" not in answer.body
    assert [(log["event"], log["audit_id"]) for log in logs] == [("request_failed", answer.header("audit-id"))]


@pytest.mark.parametrize("error", [errors.bad_request("late"), KeyError("late")], ids=["status", "unexpected"])
async def test_error_after_the_start(ask, error):
    """Once the status line is out, the response is cut off instead of getting a second one."""

    async def app(exchange):
        await exchange.start_stream()
        await exchange.send_chunk(b"half")
        raise error

    with capture_logs():
        answer = await ask(ErrorsFilter(app))
    assert (answer.status, answer.body, answer.complete) == (200, b"half", False)


async def test_client_left(ask):
    """No response is sent to a client that has left."""
    assert (await ask(failing(ClientDisconnectedError()))).status == 0


async def test_cancellation_passes(ask):
    """A cancelled request is not an error to be answered."""

    async def cancelled(_exchange):
        request.cancel()
        await asyncio.sleep(0)

    request = asyncio.create_task(ask(cancelled))
    await asyncio.wait([request])
    assert request.cancelled()


async def test_a_cancellation_of_nothing_is_an_error(ask):
    """A handler that raises it itself is answered as one that fails."""
    assert (await ask(failing(asyncio.CancelledError()))).status == 500


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        pytest.param("3f0c9bd2-7d55-4a2c-8a57-0d4f9b6f2f11", True, id="UUID"),
        pytest.param("a" * 64, True, id="64 characters"),
        pytest.param("a" * 65, False, id="65 characters"),
        pytest.param("", False, id="empty"),
        pytest.param("a b", False, id="space"),
        pytest.param('a"b', False, id="quote"),
        pytest.param("a\x1b[31m", False, id="terminal escape"),
    ],
)
async def test_audit_id(ask, probe, sent, kept):
    """A client's audit id is used if it is harmless, and replaced if not."""
    answer = await ask(ErrorsFilter(probe), headers=[("audit-id", sent)])
    assert (answer.header("audit-id") == sent) is kept
    assert probe.last.audit_id == answer.header("audit-id")
