"""A subresource that takes a POST and answers with another kind, as `serviceaccounts/token` does: `foos/base64`.

::

    python config/samples/library/base64_subresource.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k create -f - <<< '{"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "myfoo"}, "spec": {"msg": "testmsg"}}'
    k create --raw /apis/hello.zeng.dev/v1/namespaces/default/foos/myfoo/base64 -f - <<< \
        '{"apiVersion": "transformation.zeng.dev/v1beta1", "kind": "Base64", "spec": {"fieldPath": "spec"}}'
"""

import asyncio
import base64
import json
import sys
from functools import reduce
from typing import Any

import uvicorn

from kcp_py import ControlPlane, Credentials, GroupVersionKind, ObjectPart, Options, StoredResource, UserInfo, WriteRequest, errors

TEXTS: dict[str, Any] = {"type": "object", "properties": {"msg": {"type": "string"}, "msg1": {"type": "string"}}}
PATH = {"type": "object", "required": ["fieldPath"], "properties": {"fieldPath": {"type": "string"}}}

foos = StoredResource(
    group="hello.zeng.dev",
    version="v1",
    resource="foos",
    kind="Foo",
    short_names=["fo"],
    schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {**TEXTS["properties"], "config": TEXTS}}}},
)
control_plane = ControlPlane(Options(storage="memory"), apis=[foos])


@control_plane.authenticator
async def everyone(_credentials: Credentials) -> UserInfo:
    """Each request is that of an administrator, so the server must listen on this machine only."""
    return UserInfo("me", groups=("system:masters",))


@control_plane.subresource(
    "foos.hello.zeng.dev",
    "base64",
    kind=GroupVersionKind("transformation.zeng.dev", "v1beta1", "Base64"),
    schema={"type": "object", "properties": {"spec": PATH, "status": {"type": "object", "properties": {"output": {"type": "string"}}}}},
)
async def encode(request: WriteRequest, foo: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """The part of the object at a path, as JSON in base64."""
    try:
        path = body["spec"]["fieldPath"].split(".")
        part = reduce(lambda value, name: value[name], path, foo)
    except (KeyError, TypeError):
        raise errors.bad_request("spec.fieldPath: the object has nothing there") from None
    text = json.dumps(part, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    output = base64.b64encode(text.encode()).decode()
    return {"metadata": {"namespace": request.target.namespace}, "spec": body["spec"], "status": {"output": output}}


config = ObjectPart(lambda: control_plane.client, {"spec": "spec.config"})
control_plane.subresource(
    "foos.hello.zeng.dev",
    "config",
    kind=GroupVersionKind("hello.zeng.dev", "v1", "Config"),
    schema={"type": "object", "properties": {"spec": TEXTS}},
)(config)


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
