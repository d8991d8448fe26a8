"""Hooks of types: methods and functions that get objects of the class."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, field_validator
from structlog.testing import capture_logs

from kcp_py import DefinitionError, ObjectMeta, errors, fielderrors, hook, resource
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

BOATS = "/clusters/a/apis/example.com/v1/namespaces/default/boats"
RAFTS = BOATS.replace("boats", "rafts")
MERGE = {"Content-Type": "application/merge-patch+json"}


def even_pairs(one: object, two: object) -> None:
    """A hook that takes too much."""


def even(value: int) -> int:
    if value % 2:
        raise ValueError("rowers sit in pairs")
    return value


class BoatSpec(BaseModel):
    """The specification. Fields that the class does not know are kept."""

    model_config = ConfigDict(extra="allow")

    home: str
    crew: Annotated[int, AfterValidator(even)] = 2
    weight: float | None = None

    @field_validator("home")
    @classmethod
    def _is_a_port(cls, home: str) -> str:
        assert home != "Athens", "Athens has no port"
        return home


def make() -> tuple[type, type]:
    """Types of their own for each test."""

    @resource(group="example.com", version="v1")
    class Boat(BaseModel):
        """A boat."""

        metadata: ObjectMeta
        spec: BoatSpec
        status: dict[str, Any] | None = None

        def default(self) -> None:
            self.metadata.labels["home"] = self.spec.home
            self.metadata.name = "other"

        def prepare_for_create(self) -> None:
            self.status = {"phase": "Docked"}

        def prepare_for_update(self, old: Boat) -> None:
            self.metadata.annotations["before"] = old.spec.home

        def validate_update(self, old: Boat) -> list[fielderrors.FieldError]:
            if self.spec.home == old.spec.home:
                return []
            return [fielderrors.invalid("spec.home", self.spec.home, "a boat keeps its home port")]

        def warnings(self, old: Boat | None) -> list[str]:
            return ["a large crew"] if self.spec.crew > 100 and old is None else []

        def validate_delete(self) -> str | None:
            return "it is at sea" if self.spec.home == "Atlantis" else None

        def validate_status_update(self, old: Boat) -> str | None:
            return None if old.status and self.status and self.status["phase"] != "Lost" else "a boat is not lost"

    @resource(group="example.com", version="v1")
    @dataclass
    class Raft:
        """A raft."""

        metadata: dict[str, Any]
        size: int = 1

    return Boat, Raft


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    boat, raft = make()

    @hook(raft)
    def validate_create(value: Any) -> str | None:
        if value.size == 13:
            raise RuntimeError("secret")
        if value.size == 14:
            raise errors.too_many_requests("later", 1)
        if value.size == 15:
            return 5  # type: ignore[return-value]
        if value.size == 16:
            raise ValueError("sixteen")
        return "too large" if value.size > 20 else None

    @hook(raft, "default")
    def round_up(value: Any) -> None:
        value.size = max(value.size, 2)

    control_plane = ControlPlane(options(tmp_path), apis=[boat, raft])
    async with control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


def boat(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}, "spec": {"home": "Iolcus", **spec}}


def raft(name: str, size: int) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Raft", "metadata": {"name": name}, "size": size}


async def test_changes_keep_what_the_class_does_not_know(api: Api) -> None:
    """Numbers keep their form, unknown fields stay, and hooks cannot rename an object."""
    body = boat("argo", weight=5, sails=[{"area": 1.50, "of": None}], crew=50)
    body["metadata"] |= {"finalizers": ["example.com/x"], "annotations": {"a": "b"}}
    made = await api.ok("POST", BOATS, body)
    assert made["spec"] == {"home": "Iolcus", "weight": 5, "sails": [{"area": 1.5, "of": None}], "crew": 50}
    assert (made["metadata"]["name"], made["metadata"]["labels"]) == ("argo", {"home": "Iolcus"})
    assert made["metadata"]["finalizers"] == ["example.com/x"]
    assert made["status"] == {"phase": "Docked"}
    changed = await api.ok("PATCH", f"{BOATS}/argo", {"spec": {"crew": 2}}, headers=MERGE)
    assert changed["metadata"]["annotations"] | {"kcp.io/cluster": "a"} == {"a": "b", "before": "Iolcus", "kcp.io/cluster": "a"}
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert changed["metadata"]["managedFields"]


async def test_validation(api: Api) -> None:
    """Validators of the class and hooks refuse with the paths of fields; what the schema refuses is said once."""
    refused = await api.fails(422, "POST", BOATS, boat("argo", crew=3))
    assert refused["message"] == 'Boat.example.com "argo" is invalid: spec.crew: Invalid value: 3: rowers sit in pairs'
    assert (
        'spec.home: Invalid value: "Athens": Athens has no port'
        in (await api.fails(422, "POST", BOATS, boat("argo", home="Athens")))["message"]
    )
    wrong = await api.fails(422, "POST", BOATS, boat("argo", crew="many"))
    assert [cause["field"] for cause in wrong["details"]["causes"]] == ["spec.crew"]
    await api.ok("POST", BOATS, boat("argo"))
    moved = await api.fails(422, "PATCH", f"{BOATS}/argo", {"spec": {"home": "Corinth"}}, headers=MERGE)
    assert 'spec.home: Invalid value: "Corinth": a boat keeps its home port' in moved["message"]
    lost = await api.fails(422, "PATCH", f"{BOATS}/argo/status", {"status": {"phase": "Lost"}}, headers=MERGE)
    # As upstream prints a path where there is none.
    assert lost["message"] == 'Boat.example.com "argo" is invalid: <nil>: Invalid value: a boat is not lost'
    assert lost["details"]["causes"] == [{"reason": "FieldValueInvalid", "message": "Invalid value: a boat is not lost", "field": "<nil>"}]
    answer = await api("POST", BOATS, boat("large", crew=120))
    assert "a large crew" in answer.headers["warning"]
    await api.ok("POST", BOATS, boat("lost", home="Atlantis"))
    assert "it is at sea" in (await api.fails(403, "DELETE", f"{BOATS}/lost"))["message"]
    await api.ok("DELETE", f"{BOATS}/argo")


def test_hooks_with_other_parameters_are_refused() -> None:
    """At the definition, and not with a 500 of each write."""
    with pytest.raises(DefinitionError, match=r"Boat.validate_update: it is called as validate_update\(self, old\)"):

        @resource(group="example.com", version="v1")
        class Boat(BaseModel):
            """A boat."""

            metadata: ObjectMeta

            def validate_update(self) -> None:
                """The old object is missing."""

    with pytest.raises(DefinitionError, match=r"Raft.default: it is called as default\(self\)"):
        hook(make()[1], "default")(even_pairs)


async def test_what_a_changing_hook_returns(tmp_path: Path) -> None:
    """An object takes the place of the one that the hook got; anything else is a failure, and never ignored."""

    @resource(group="example.com", version="v1")
    class Ferry(BaseModel):
        """A ferry."""

        metadata: ObjectMeta
        size: int

        def default(self) -> Any:
            return {1: self.model_copy(update={"size": 10}), 2: {"size": 10}, 3: True}.get(self.size)

        def validate_create(self) -> Any:
            return {"size": "wrong"} if self.size == 4 else None

    ferries = BOATS.replace("boats", "ferries")
    async with (
        ControlPlane(options(tmp_path), apis=[Ferry]) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)

        def ferry(size: int) -> dict[str, Any]:
            return {"apiVersion": "example.com/v1", "kind": "Ferry", "metadata": {"name": f"f{size}"}, "size": size, "unknown": 1}

        made = await api.ok("POST", ferries, ferry(1))
        assert (made["size"], made["metadata"]["name"]) == (10, "f1")
        for size in (2, 3, 4):
            with capture_logs() as logs:
                await api.fails(500, "POST", ferries, ferry(size))
            assert [one for one in logs if one["event"] == "request_failed"]
        assert (await api.ok("POST", ferries, ferry(5)))["size"] == 5


async def test_functions_and_their_failures(api: Api) -> None:
    """Functions are hooks, too. A text refuses, a ValueError does, a StatusError is the answer, and anything else is a 500."""
    assert (await api.ok("POST", RAFTS, raft("one", 1)))["size"] == 2
    assert "too large" in (await api.fails(422, "POST", RAFTS, raft("two", 21)))["message"]
    assert "sixteen" in (await api.fails(422, "POST", RAFTS, raft("two", 16)))["message"]
    await api.fails(429, "POST", RAFTS, raft("two", 14))
    with capture_logs() as logs:
        for size in (13, 15):
            failed = await api.fails(500, "POST", RAFTS, raft("two", size))
            assert "secret" not in failed["message"]
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["request_failed"] * 2
    assert next(line["function"] for line in logs if "function" in line).endswith("validate_create")
    assert [item["metadata"]["name"] for item in (await api.ok("GET", RAFTS))["items"]] == ["one"]


def test_wrong_hooks() -> None:
    """They are refused at the definition, by name."""
    _, raft = make()
    with pytest.raises(DefinitionError, match=r"Raft: there is no hook validate; there are default, prepare_for_create"):
        hook(raft, "validate")(lambda _: None)

    async def default(value: Any) -> None:
        del value

    with pytest.raises(DefinitionError, match=r"Raft\.default: it is a coroutine function; a hook runs inside of a write"):
        hook(raft)(default)
    with pytest.raises(DefinitionError, match="BoatSpec is not a resource: decorate it with @resource"):
        hook(BoatSpec, "default")(lambda _: None)
