"""Types are served as resources: schemas, defaults, rules, hooks, columns, and versions over a hub."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, make_dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import httpx
import pytest
from pydantic import BaseModel, Field
from structlog.testing import capture_logs

from kcp_py import DefinitionError, Int32, ObjectMeta, Rule, resource
from kcp_py.client.models import decode, encode
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, Watch, options

pytestmark = pytest.mark.anyio

SAMPLE = Path(__file__).parents[3] / "config/samples/library/foos.py"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def foos(version: str, name: str = "", cluster: str = "a") -> str:
    return f"/clusters/{cluster}/apis/hello.zeng.dev/{version}/namespaces/default/foos" + (f"/{name}" if name else "")


def sample() -> ModuleType:
    """The module that users are shown, made anew."""
    spec = importlib.util.spec_from_file_location("foos_sample", SAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["foos_sample"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane with the types of the sample."""
    async with ControlPlane(options(tmp_path), apis=[sample().Foo]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def foo(name: str, msg: str = "testmsg", **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"apiVersion": "hello.zeng.dev/v2", "kind": "Foo", "metadata": {"name": name}}
    return {**body, "spec": {"config": {"msg": msg}, **spec}}


def foo_v1(name: str, msg: str = "testmsg", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": name}, "spec": {"msg": msg, **spec}}


async def test_defaults_rules_and_hooks(api: Api) -> None:
    """The schema and the functions of the class all count, and unknown metadata stays."""
    body = foo("one", image="example.com/nginx:2")
    body["metadata"]["annotations"] = {"a": "b"}
    created = await api.ok("POST", foos("v2"), body)
    assert created["spec"] == {"config": {"msg": "testmsg", "msg1": "hi, there👋"}, "image": "example.com/nginx:2"}
    assert created["metadata"]["labels"] == {"image": "nginx-2"}
    assert created["metadata"]["annotations"]["a"] == "b"
    refused = await api.fails(422, "POST", foos("v2"), foo("two", msg="damn"))
    assert "a Foo does not curse" in refused["message"]
    assert "the two messages are the same" in (await api.fails(422, "POST", foos("v2"), foo("two", msg="hi, there👋")))["message"]
    assert "should be at least 1 chars long" in (await api.fails(422, "POST", foos("v2"), foo("two", msg="")))["message"]
    moved = await api.fails(422, "PATCH", foos("v2", "one"), {"spec": {"image": "other"}}, headers=MERGE)
    assert "is immutable" in moved["message"]
    wrong = await api.fails(422, "POST", foos("v2"), {**foo("two"), "spec": {"config": 5}})
    assert [cause["field"] for cause in wrong["details"]["causes"]].count("spec.config") == 1


async def test_columns_documents_and_status(api: Api) -> None:
    """Tables, discovery, OpenAPI and the status are those of a CRD with this content."""
    await api.ok("POST", foos("v2"), foo("one"))
    condition = {"type": "Worker", "status": "False", "reason": "None", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {"status": {"phase": "Ready", "conditions": [condition]}, "spec": {"image": "other"}}
    changed = await api.ok("PATCH", foos("v2", "one") + "/status", status, headers=MERGE)
    assert (changed["status"]["phase"], changed["spec"]["image"]) == ("Ready", "nginx")
    table = await api.ok("GET", foos("v2"), headers=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Msg", "Phase"]
    assert [row["cells"] for row in table["rows"]] == [["one", "testmsg", "Ready"]]
    assert (await api.ok("GET", foos("v1", "one")))["status"]["conditions"] == [condition]
    group = await api.ok("GET", "/clusters/a/apis/hello.zeng.dev")
    assert group["preferredVersion"]["version"] == "v2"
    entries = (await api.ok("GET", "/clusters/a/apis/hello.zeng.dev/v2"))["resources"]
    assert [(one["name"], one.get("shortNames")) for one in entries] == [("foos", ["fo"]), ("foos/status", None)]
    document = await api.ok("GET", "/clusters/a/openapi/v3/apis/hello.zeng.dev/v2")
    schema = document["components"]["schemas"]["dev.zeng.hello.v2.Foo"]
    assert schema["properties"]["spec"]["properties"]["image"]["description"] == "The image that says it."


async def test_both_versions_read_and_write_one_object(api: Api) -> None:
    """Reads, lists, tables, watches and patches of each version show the same object; one version is stored."""
    async with Watch(api, foos("v1")) as watch:
        await api.ok("POST", foos("v1"), foo_v1("one"))
        await api.ok("PATCH", foos("v2", "one"), {"spec": {"config": {"msg": "other"}}}, headers=MERGE)
        events = [(await watch.next() or {})["object"] for _ in range(2)]
    assert [event["spec"] for event in events] == [{"msg": "testmsg", "msg1": "hi, there👋"}, {"msg": "other", "msg1": "hi, there👋"}]
    assert {event["apiVersion"] for event in events} == {"hello.zeng.dev/v1"}
    found = await api.ok("GET", foos("v2", "one"))
    assert (found["spec"]["image"], found["metadata"]["labels"]) == ("nginx", {"image": "nginx"})
    await api.ok("POST", foos("v2"), foo("two", image="busybox"))
    items = (await api.ok("GET", foos("v1")))["items"]
    assert [item["spec"]["msg"] for item in items] == ["other", "testmsg"]
    assert items[1]["metadata"]["annotations"]["hello.zeng.dev/image"] == "busybox"
    # A write in the version without images keeps the image.
    await api.ok("PATCH", foos("v1", "two"), {"spec": {"msg1": "bye"}}, headers=MERGE)
    kept = await api.ok("GET", foos("v2", "two"))
    assert (kept["spec"]["image"], kept["spec"]["config"]["msg1"]) == ("busybox", "bye")
    assert "hello.zeng.dev/image" not in kept["metadata"]["annotations"]
    stored = (await api.control_plane.backend.access.storage.range("/registry/hello.zeng.dev/foos/a/")).items
    assert all(b'"apiVersion":"hello.zeng.dev/v2"' in item.value for item in stored)
    everywhere = await api.ok("GET", "/clusters/*/apis/hello.zeng.dev/v1/foos")
    assert [item["spec"]["msg"] for item in everywhere["items"]] == ["other", "testmsg"]


async def test_rules_and_hooks_of_the_hub_hold_in_every_version(api: Api) -> None:
    """Otherwise the older version would be the way around them."""
    assert "a Foo does not curse" in (await api.fails(422, "POST", foos("v1"), foo_v1("one", "damn")))["message"]
    await api.ok("POST", foos("v1"), foo_v1("one"))
    assert (await api.ok("GET", foos("v1", "one")))["metadata"]["labels"] == {"image": "nginx"}
    assert "a Foo does not curse" in (await api.fails(422, "PATCH", foos("v1", "one"), {"spec": {"msg": "damn"}}, headers=MERGE))["message"]


async def test_owners_of_fields_by_version(api: Api) -> None:
    """Two managers apply in two versions, each owning its fields in its version."""
    await api.ok("PATCH", foos("v1", "one"), foo_v1("one"), headers=APPLY, params={"fieldManager": "old"})
    body = foo("one", msg="testmsg", image="nginx")
    applied = await api.ok("PATCH", foos("v2", "one"), body, headers=APPLY, params={"fieldManager": "new"})
    owners = {one["manager"]: one["apiVersion"] for one in applied["metadata"]["managedFields"]}
    assert owners == {"old": "hello.zeng.dev/v1", "new": "hello.zeng.dev/v2"}
    conflict = await api.fails(409, "PATCH", foos("v2", "one"), foo("one", msg="mine"), headers=APPLY, params={"fieldManager": "new"})
    assert "old" in conflict["message"]


@pytest.fixture
def logs() -> Iterator[list[Any]]:
    """The lines of the log."""
    with capture_logs() as lines:
        yield lines


async def test_a_failing_conversion_is_a_500_of_its_request(tmp_path: Path, logs: list[Any]) -> None:
    """The function is named, the text of its exception is not shown, and other objects and clusters are served."""
    module = sample()
    real = module.FooV1.convert_from.__func__

    def convert_from(cls: Any, hub: Any) -> Any:
        if hub.spec.config.msg == "bad":
            raise RuntimeError("secret")
        return 5 if hub.spec.config.msg == "wrong" else real(cls, hub)

    module.FooV1.convert_from = classmethod(convert_from)
    async with ControlPlane(options(tmp_path), apis=[module.Foo]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for msg in ("bad", "wrong", "good"):
                await api.ok("POST", foos("v2"), foo(msg, msg))
            await api.ok("POST", foos("v2", cluster="b"), foo("good"))
            for name, error in (("bad", "RuntimeError"), ("wrong", "TypeError")):
                failed = await api.fails(500, "GET", foos("v1", name))
                assert "conversion of foos.hello.zeng.dev from v2 to v1 failed" in failed["message"]
                assert error in failed["message"]
                assert "secret" not in failed["message"]
            await api.fails(500, "GET", foos("v1"))
            await api.ok("GET", foos("v1", "good"))
            await api.ok("GET", foos("v2"))
            await api.ok("GET", foos("v1", cluster="b"))
            everywhere = await api.ok("GET", "/clusters/*/apis/hello.zeng.dev/v1/foos")
            assert [item["metadata"]["name"] for item in everywhere["items"]] == ["good"]
            await api.ok("DELETE", foos("v2", "bad"))
    failed = [line for line in logs if line["event"] == "conversion_failed"]
    assert failed[0]["error"] == "RuntimeError: secret"
    assert failed[0]["function"].endswith("convert_from")


class Window(BaseModel):
    """When work is done."""

    opens_after: timedelta = timedelta(seconds=30)
    max_size: Int32 = 2


@Rule("self.replicaCount <= self.workWindow.maxSize", message="more replicas than the window has")
@dataclass(kw_only=True)
class PumpSpec:
    """A dataclass with names of Python, bytes and durations."""

    replica_count: Int32 = 1
    secret_key: Annotated[bytes, Field(max_length=4)] = b"hi"
    check_every: Annotated[timedelta, Field(ge=timedelta(seconds=1))] = timedelta(minutes=5)
    work_window: Window = field(default_factory=Window)
    salts: dict[str, bytes] = field(default_factory=dict)


PUMPS = "/clusters/a/apis/example.com/v1/namespaces/default/pumps"


def make_pump() -> type:
    """A type of its own for each test."""

    @resource(
        group="example.com",
        version="v1",
        camel_case=True,
        columns=[".spec.replicaCount", ".spec.checkEvery"],
        selectable_fields=[".spec.replicaCount"],
        scale={"specReplicasPath": ".spec.replicaCount", "statusReplicasPath": ".status.readyReplicas"},
    )
    @dataclass
    class Pump:
        """A pump."""

        spec: PumpSpec
        status: dict[str, Any] | None = None

        def default(self) -> None:
            if self.spec.secret_key == b"turn":
                self.spec.secret_key, self.spec.check_every = bytes(reversed(self.spec.secret_key)), self.spec.check_every * 2

        def validate_create(self) -> str | None:
            return "the window opens late" if self.spec.work_window.opens_after > timedelta(days=1) else None

    return Pump


@pytest.fixture
async def pumps(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane with pumps."""
    async with ControlPlane(options(tmp_path), apis=[make_pump()]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def pump(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Pump", "metadata": {"name": name}, "spec": spec}


async def test_names_bytes_and_durations_are_served(pumps: Api) -> None:
    """Defaults, hooks, columns, field selectors, `/scale` and rules have the names in camelCase, and values the forms of Go."""
    made = await pumps.ok("POST", PUMPS, pump("a"))
    assert made["spec"] == {
        "replicaCount": 1,
        "secretKey": "aGk=",
        "checkEvery": "5m0s",
        "workWindow": {"opensAfter": "30s", "maxSize": 2},
    }
    turned = await pumps.ok("POST", PUMPS, pump("b", secretKey="dHVybg==", checkEvery="90m", salts={"x": "/w=="}))
    assert (turned["spec"]["secretKey"], turned["spec"]["checkEvery"], turned["spec"]["salts"]) == ("bnJ1dA==", "3h0m0s", {"x": "/w=="})
    kept = await pumps.ok("POST", PUMPS, pump("c", checkEvery="90m", replicaCount=2))
    assert kept["spec"]["checkEvery"] == "90m"
    table = await pumps.ok("GET", PUMPS, headers=TABLE)
    assert [one["name"] for one in table["columnDefinitions"]] == ["Name", "ReplicaCount", "CheckEvery"]
    assert table["rows"][2]["cells"] == ["c", 2, "90m"]
    found = await pumps.ok("GET", f"{PUMPS}?fieldSelector=spec.replicaCount%3D2")
    assert [one["metadata"]["name"] for one in found["items"]] == ["c"]
    assert (await pumps.ok("GET", f"{PUMPS}/c/scale"))["spec"]["replicas"] == 2


@pytest.mark.parametrize(
    ("spec", "field_name", "text"),
    [
        ({"replicaCount": 3}, "spec", "more replicas than the window has"),
        ({"secretKey": "a"}, "spec.secretKey", "must be of type byte"),
        ({"secretKey": "aGVsbG8="}, "spec.secretKey", "must have at most 4 bytes"),
        ({"checkEvery": "0s"}, "spec.checkEvery", "must be at least 1s"),
        ({"workWindow": {"opensAfter": "soon"}}, "spec.workWindow.opensAfter", 'must be a duration such as "1h30m", "500ms" or "0s"'),
        ({"workWindow": {"opensAfter": 5}}, "spec.workWindow.opensAfter", "must be of type string"),
        ({"workWindow": {"opensAfter": "25h"}}, "<nil>", "the window opens late"),
    ],
    ids=str,
)
async def test_values_that_are_refused(pumps: Api, spec: dict[str, Any], field_name: str, text: str) -> None:
    """Each is one error with the path in JSON, and nothing is stored."""
    answer = await pumps.fails(422, "POST", PUMPS, pump("a", **spec))
    # Where the type is wrong, rules are not checked, which upstream says in a cause without a field.
    (cause,) = [one for one in answer["details"]["causes"] if one["field"] != "<nil>" or text in one["message"]]
    assert cause["field"] == field_name
    assert text in cause["message"]
    assert (await pumps.ok("GET", PUMPS))["items"] == []


async def test_names_of_python_are_unknown_fields(pumps: Api) -> None:
    """They are pruned, and strict field validation refuses them."""
    made = await pumps.ok("POST", PUMPS, pump("a", replica_count=2))
    assert made["spec"]["replicaCount"] == 1
    answer = await pumps.fails(400, "POST", f"{PUMPS}?fieldValidation=Strict", pump("b", replica_count=2))
    assert 'unknown field "spec.replica_count"' in answer["message"]


def test_definitions_in_camel_case() -> None:
    """The CRD has the names of the server, and a column of a name of Python is an error."""
    described = make_pump().__resource__  # type: ignore[attr-defined]
    schema = described.schema["properties"]["spec"]
    assert list(schema["properties"]) == ["replicaCount", "secretKey", "checkEvery", "workWindow", "salts"]
    with pytest.raises(DefinitionError, match=r"^Pump: the column \.spec\.replica_count is of no field"):
        resource(group="example.com", version="v1", camel_case=True, columns=[".spec.replica_count"])(
            make_dataclass("Pump", [("spec", PumpSpec)])
        )


def test_versions_have_the_names_of_their_hub() -> None:
    """A further version says otherwise for itself."""
    hub = make_pump()
    old = resource(version="v1alpha1", hub=hub)(make_dataclass("PumpV1alpha1", [("spec", PumpSpec)]))
    other = resource(version="v1alpha2", hub=hub, camel_case=False)(make_dataclass("PumpV1alpha2", [("spec", Window)]))
    assert "replicaCount" in old.__resource__.schema["properties"]["spec"]["properties"]  # type: ignore[attr-defined]
    assert "max_size" in other.__resource__.schema["properties"]["spec"]["properties"]  # type: ignore[attr-defined]


async def test_typed_clients(pumps: Api) -> None:
    """A client makes, changes and reads objects of the class."""
    model = make_pump()
    spec = PumpSpec(secret_key=b"\xff", check_every=timedelta(hours=2), work_window=Window(opens_after=timedelta(seconds=1)))
    made = model(spec=spec)
    obj = encode(made)
    assert obj["spec"] == {
        "replicaCount": 1,
        "secretKey": "/w==",
        "checkEvery": "2h0m0s",
        "workWindow": {"opensAfter": "1s", "maxSize": 2},
        "salts": {},
    }
    answer = await pumps.ok("POST", PUMPS, {**obj, "metadata": {"name": "a"}})
    read: Any = decode(model, answer)
    assert read == made
    read.spec.check_every += timedelta(milliseconds=1)
    changed = encode(read)
    assert changed["spec"] == {**answer["spec"], "checkEvery": "2h0m0.001s"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"short_names": "fo"}, r"Toy: short_names is a list of texts, and not a text: short_names=\['fo'\]"),
        ({"categories": "all"}, r"Toy: categories is a list of texts, and not a text: categories=\['all'\]"),
        ({"columns": ".size"}, r"Toy: columns is a list of texts, and not a text: columns=\['.size'\]"),
        ({"columns": {"Size": ".size"}}, "Toy: columns is a list, and not a dict"),
        ({"columns": [("Size", ".size")]}, r"Toy: the column \('Size', '.size'\) is neither a path nor a Column"),
        ({"selectable_fields": ".size"}, "Toy: selectable_fields is a list of texts"),
        ({"scale": True}, r"Toy: scale has the paths specReplicasPath and statusReplicasPath: scale=\{"),
    ],
)
def test_settings_of_another_form_are_refused(settings: dict[str, Any], message: str) -> None:
    """The message says what to write. A text is not read as the list of its letters."""

    class Toy(BaseModel):
        """A toy."""

        metadata: ObjectMeta
        size: int

    with pytest.raises(DefinitionError, match=message):
        resource(group="example.com", version="v1", **settings)(Toy)
