from __future__ import annotations

import orjson
import pytest
import yaml

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.server.negotiation import Representation
from kcp_py.server.status import write_status

MISSING = errors.not_found(GroupResource("apps", "deployments"), "x")


def test_json():
    """An error is a v1 Status with its keys in upstream's order."""
    code, body, content_type, headers = write_status(MISSING)
    assert (code, content_type, headers) == (404, b"application/json", ())
    assert body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"deployments.apps \\"x\\" not found",'
        b'"reason":"NotFound","details":{"name":"x","group":"apps","kind":"deployments"},"code":404}\n'
    )


def test_pretty():
    """For people, the same with indentation."""
    body = write_status(MISSING, Representation(pretty=True)).body
    assert b'\n  "kind": "Status"' in body
    assert orjson.loads(body) == MISSING.to_status()


def test_yaml():
    """Who accepts YAML gets YAML."""
    written = write_status(MISSING, Representation("yaml"))
    assert written.content_type == b"application/yaml"
    assert yaml.safe_load(written.body) == MISSING.to_status()


def test_transform_does_not_matter():
    """An error is never a table."""
    assert orjson.loads(write_status(MISSING, Representation("json", "Table", "v1")).body)["kind"] == "Status"


@pytest.mark.parametrize(
    ("error", "body"),
    [
        pytest.param(errors.unknown_path(), b"404 page not found\n", id="unknown path"),
        pytest.param(StatusError(501, "", "not here"), b"not here\n", id="not implemented"),
    ],
)
def test_plain_text(error, body):
    """What upstream's multiplexer answers is plain text, in every encoding."""
    for representation in (Representation(), Representation("yaml")):
        written = write_status(error, representation)
        assert (written.body, written.content_type) == (body, b"text/plain; charset=utf-8")
        assert (b"x-content-type-options", b"nosniff") in written.headers


def test_error_without_reason_is_a_status():
    """A plain error of the server is a Status all the same."""
    written = write_status(StatusError(500, "", "resourceVersion should not be set on objects to be created"))
    assert orjson.loads(written.body)["code"] == 500
    assert "reason" not in orjson.loads(written.body)


def test_retry_after():
    """The retry delay of the details is a header as well."""
    assert write_status(errors.too_many_requests("later", 3)).headers == ((b"retry-after", b"3"),)


@pytest.mark.parametrize("media", ["json", "yaml"])
def test_hostile_text(media):
    """A message that quotes a lone surrogate can still be written."""
    written = write_status(errors.bad_request("bad \ud800 name"), Representation(media))
    assert b"BadRequest" in written.body
    written.body.decode()
