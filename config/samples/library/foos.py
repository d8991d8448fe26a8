"""The kind Foo of hello.zeng.dev as Pydantic models, in two versions: defaults, rules, columns, a status, hooks and conversion.

::

    python config/samples/library/foos.py 8080 &
    alias k='kubectl --server http://127.0.0.1:8080/clusters/team-a'
    k create -f - <<< '{"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "myfoo"}, "spec": {"msg": "testmsg"}}'
    k get foos.v2.hello.zeng.dev myfoo -o yaml          # the same object in the other version
    k explain foos.spec --api-version hello.zeng.dev/v2
    kcp-py generate crds config/samples/library/foos.py
"""

import asyncio
import sys
from typing import Annotated, Literal

import uvicorn
from pydantic import BaseModel, Field

from kcp_py import Column, Condition, ControlPlane, Credentials, ObjectMeta, Options, Rule, Schema, UserInfo, resource


@Rule("self.msg != self.msg1", message="the two messages are the same")
class Config(BaseModel):
    """What a Foo says."""

    msg: Annotated[str, Field(min_length=1, max_length=80)]
    """The message."""
    msg1: str = "hi, there👋"
    """A second message."""


class FooSpec(BaseModel):
    """The specification."""

    config: Config
    image: Annotated[str, Field(pattern="^[a-z0-9./:-]+$"), Schema(immutable=True, max_length=200)] = "nginx"
    """The image that says it."""


class FooStatus(BaseModel):
    """The observed state."""

    phase: Literal["Processing", "Ready"] | None = None
    conditions: Annotated[list[Condition], Schema(list_type="map", list_map_keys=["type"])] = []


@resource(group="hello.zeng.dev", version="v2", short_names=["fo"], columns=[".spec.config.msg", Column(".status.phase", "Phase")])
class Foo(BaseModel):
    """A Foo says hello."""

    metadata: ObjectMeta
    spec: FooSpec
    status: FooStatus | None = None

    def default(self) -> None:
        """Runs for every write."""
        self.metadata.labels.setdefault("image", self.spec.image.rpartition("/")[2].replace(":", "-"))

    def validate_create(self) -> str | None:
        """Runs for every write, too, because there is no `validate_update`."""
        return "a Foo does not curse" if "damn" in self.spec.config.msg else None


@resource(version="v1", hub=Foo, columns=[".spec.msg"])
class FooV1(BaseModel):
    """A Foo of the first version has no image."""

    metadata: ObjectMeta
    spec: Config
    status: FooStatus | None = None

    def convert_to(self) -> Foo:
        image = self.metadata.annotations.pop("hello.zeng.dev/image", "nginx")
        return Foo(metadata=self.metadata, spec=FooSpec(config=self.spec, image=image), status=self.status)

    @classmethod
    def convert_from(cls, foo: Foo) -> "FooV1":
        if foo.spec.image != "nginx":
            foo.metadata.annotations["hello.zeng.dev/image"] = foo.spec.image
        return cls(metadata=foo.metadata, spec=foo.spec.config, status=foo.status)


class Everyone:
    """Authenticates each request as an administrator, so the server must listen on this machine only."""

    async def authenticate(self, credentials: Credentials) -> UserInfo:
        return UserInfo("me", groups=("system:masters",))


async def main(port: int) -> None:
    """Serve until interrupted."""
    async with ControlPlane(Options(storage="memory"), authenticators=[Everyone()], apis=[Foo]) as control_plane:
        await uvicorn.Server(uvicorn.Config(control_plane.app, port=port, log_level="warning")).serve()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
