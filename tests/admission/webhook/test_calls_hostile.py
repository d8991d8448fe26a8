"""Servers behind webhooks that answer as no webhook should."""

from __future__ import annotations

import gzip

import orjson
import pytest

from tests.admission.webhook.conftest import GROUP, MAPS, MERGE, Hooks, config_map, configure
from tests.egress.https import Request, http
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
CONFIGURATION = f"{GROUP.format('a')}validatingwebhookconfigurations/c"
CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
ALLOWED = b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "UID", "allowed": true}}'


def squeezed(size: int) -> bytes:
    """A small body that grows to a size where it is uncompressed."""
    body = gzip.compress(b" " * size + ALLOWED)
    return http(200, body, "Content-Encoding: gzip")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        pytest.param(CHUNKED + CHUNK * 9, "http: response body too large: limit is 8388608", id="more than the limit"),
        pytest.param(CHUNKED + CHUNK, "context deadline exceeded", id="the rest never comes"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{", "context deadline exceeded", id="much is announced"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000, "context deadline exceeded", id="a thousand times: continue"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n", "malformed HTTP response", id="a large header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 500_000 + b"\r\n", "malformed HTTP response", id="many headers"),
        pytest.param(b"", "EOF", id="nothing"),
        pytest.param(b"SSH-2.0-x\r\n\r\n", "malformed HTTP response", id="another protocol"),
        pytest.param(http(200, ALLOWED + b"x")[:-1] + b"", "context deadline exceeded", id="one byte less than announced"),
        pytest.param(http(200, b""), "0-length response with status code: 200", id="no body"),
        pytest.param(http(204), "0-length response with status code: 204", id="no content"),
        pytest.param(http(200, b"[" * 1_000_000), "exceeded max depth", id="nested without end"),
        pytest.param(http(200, b"\x00" * 100), "json parse error", id="zeros"),
        pytest.param(squeezed(50_000_000), "json parse error", id="a compressed body that was not asked for"),
        pytest.param(
            http(302, b"", "Location: https://127.0.0.1:1/elsewhere"), "the server responded with the status code 302", id="a redirect"
        ),
        pytest.param(http(101, b""), "failed to call webhook", id="another protocol, switched to"),
    ],
)
async def test_failures(api: Api, hooks: Hooks, answer: bytes, text: str) -> None:
    """Each is a failure of the webhook, which its policy may ignore, and the next call succeeds."""

    async def respond(request: Request) -> bytes:
        uid = request.json()["request"]["uid"].encode()
        return answer if request.target.startswith("/x") else http(200, ALLOWED.replace(b"UID", uid))

    hooks.server.respond = respond
    failing = hooks.webhook("/x", timeoutSeconds=1 if "deadline" in text else 30)
    await configure(api, "validating", failing, hooks.webhook("/y"))
    refused = await api.fails(500, "POST", MAPS, config_map())
    assert refused["message"].startswith('Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: ')
    assert text in refused["message"]
    assert len(refused["message"]) < 10_000
    ignored = {"webhooks": [{**failing, "failurePolicy": "Ignore"}, hooks.webhook("/y")]}
    await api.ok("PATCH", CONFIGURATION, ignored, headers=MERGE)
    await api.ok("POST", MAPS, config_map())
    await api.ok("PATCH", CONFIGURATION, {"webhooks": [hooks.webhook("/y")]}, headers=MERGE)
    await api.ok("POST", MAPS, config_map("y"))


async def test_long_texts_are_cut(api: Api, hooks: Hooks) -> None:
    """Warnings and the message of a refusal may be long, and contain anything."""
    await configure(api, "validating", hooks.webhook("/x"))
    many = {f"k{number}": "v" for number in range(10_000)}
    causes = [{"message": "m" * 100_000}] * 10
    hooks.answers["/x"] = {
        "allowed": False,
        "status": {"message": "é\r\nX-Injected: yes\0" + "x" * 1_000_000, "code": 403, "details": {"causes": causes}},
        "warnings": ["w\r\nX-Injected: yes"] * 1000 + ["x" * 1_000_000],
        "auditAnnotations": {"a" * 10_000: "b" * 1_000_000, "key": "x" * 1_000_000, **many},
    }
    answer = await api("POST", MAPS, config_map())
    assert answer.status_code == 403
    assert "X-Injected" not in answer.headers
    assert sum(len(value) for value in answer.headers.get_list("Warning")) <= 8192
    assert orjson.loads(answer.content)["message"].startswith('admission webhook "x.example.com" denied the request: é\r\n')
