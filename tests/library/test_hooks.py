"""Functions as admission plugins: what they see, what they answer, and what becomes of their mistakes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kcp_py import Attributes, ControlPlane, GroupVersionResource, Options, errors, fielderrors, parse_name

pytestmark = pytest.mark.anyio

TEAM, OTHER = parse_name("team-a"), parse_name("team-b")
MAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")


def control_plane() -> ControlPlane:
    return ControlPlane(Options(storage="memory"), batteries=["namespaces", "core"])


def config_map(name: str = "one", **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}}


async def test_functions_change_objects_in_place_or_return_another() -> None:
    """Plain functions and coroutine functions, in the order in which they were added."""
    cp = control_plane()

    @cp.mutating("configmaps")
    def first(attributes: Attributes) -> None:
        assert attributes.obj is not None
        attributes.obj["data"] = {"seen": "first"}

    @cp.mutating("*", operations=["CREATE"])
    async def second(attributes: Attributes) -> dict[str, Any] | None:
        obj = attributes.obj
        return obj and {**obj, "data": {**obj.get("data", {}), "then": "second"}}

    async with cp:
        made = await cp.client.create(TEAM, MAPS, config_map())
        assert made["data"] == {"seen": "first", "then": "second"}


@pytest.mark.parametrize(
    ("result", "code", "message"),
    [
        (None, 0, ""),
        ("", 0, ""),
        ([], 0, ""),
        ("not today", 403, 'configmaps "one" is forbidden: not today'),
        ([fielderrors.invalid("data.size", 12, "too large")], 422, 'ConfigMap "one" is invalid: data.size: Invalid value: 12: too large'),
        (errors.too_many_requests("later", 3), 429, "later"),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "coroutine", "thread"])
async def test_a_validation_allows_or_refuses(result: Any, code: int, message: str, kind: str) -> None:
    """By its result, or by raising a StatusError."""
    cp = control_plane()
    seen: list[str] = []

    def answer(attributes: Attributes) -> Any:
        seen.append(threading.current_thread().name)
        assert attributes.kind.kind == "ConfigMap"
        if isinstance(result, errors.StatusError):
            raise result
        return result

    async def answer_later(attributes: Attributes) -> Any:
        return answer(attributes)

    cp.validating("configmaps", thread=kind == "thread", name="judge")(answer_later if kind == "coroutine" else answer)
    async with cp:
        if code:
            with pytest.raises(errors.StatusError) as refused:
                await cp.client.create(TEAM, MAPS, config_map())
            assert (refused.value.code, refused.value.message) == (code, message)
        else:
            await cp.client.create(TEAM, MAPS, config_map())
    assert all(name.startswith("kcp-py-function") is (kind == "thread") for name in seen)
    assert len(seen) == 1


async def test_a_function_sees_only_what_matches_its_rule() -> None:
    """Operation, cluster, namespace, scope and labels; of labels those of the old object count, too."""
    cp = control_plane()
    seen: list[tuple[str, str, str]] = []

    def note(what: str) -> Callable[[Attributes], None]:
        return lambda attributes: seen.append((what, attributes.operation, attributes.name))

    cp.validating("configmaps", operations=["DELETE"], name="deletions")(note("deletions"))
    cp.validating("configmaps", clusters=["team-b"], name="clusters")(note("clusters"))
    cp.validating("configmaps", namespaces=["kube-system"], name="namespaces")(note("namespaces"))
    cp.validating(namespaced=False, name="scope")(note("scope"))
    cp.validating("configmaps", labels="tier=gold", name="labels")(note("labels"))
    async with cp:
        await cp.client.create(TEAM, MAPS, config_map("gold", tier="gold"))
        await cp.client.patch(TEAM, MAPS, "default", "gold", document={"metadata": {"labels": {"tier": "none"}}})
        await cp.client.patch(TEAM, MAPS, "default", "gold", document={"data": {"a": "b"}})
        await cp.client.delete(TEAM, MAPS, "default", "gold")
        await cp.client.create(OTHER, MAPS, config_map("other"))
        await cp.client.create(TEAM, NAMESPACES, {"metadata": {"name": "space"}})
    assert [one for one in seen if one[0] != "scope"] == [
        ("labels", "CREATE", "gold"),
        ("labels", "UPDATE", "gold"),
        ("deletions", "DELETE", "gold"),
        ("clusters", "CREATE", "other"),
    ]
    assert ("scope", "CREATE", "space") in seen


@pytest.mark.parametrize("result", [42, True, {"a": 1}, ["text"], object()], ids=["number", "truth", "object", "texts", "other"])
async def test_a_result_of_a_wrong_type_names_the_function_and_no_value(result: Any) -> None:
    """It is the mistake of the function, and not of the client."""
    cp = control_plane()

    @cp.validating("configmaps")
    def forgetful(_: Attributes) -> Any:
        return result

    async with cp:
        with pytest.raises(TypeError, match=rf"forgetful returned {type(result).__name__} instead of None, a text or"):
            await cp.client.create(TEAM, MAPS, config_map())


async def test_functions_have_names_by_which_they_are_switched_off() -> None:
    """That of the function, or another one; two functions need two names."""
    cp = ControlPlane(Options(storage="memory", disable_admission_plugins=("strict",)))
    cp.validating("configmaps", name="strict")(lambda _: "no")
    async with cp:
        await cp.client.create(TEAM, MAPS, config_map())

    twice = control_plane()
    for _ in range(2):

        @twice.validating("configmaps")
        def same(attributes: Attributes) -> None:
            pass

    with pytest.raises(ValueError, match=r"several admission plugins are named .*same"):
        await twice.__aenter__()


async def test_mistakes_show_when_a_function_is_added() -> None:
    """A coroutine function for a thread, an object that cannot be called, and a control plane that runs already."""
    cp = control_plane()

    async def waits(attributes: Attributes) -> None:
        pass

    with pytest.raises(TypeError, match="waits is a coroutine function"):
        cp.mutating("configmaps", thread=True)(waits)
    with pytest.raises(TypeError, match="is not a function"):
        cp.validating("configmaps")("text")  # type: ignore[type-var]
    async with cp:
        with pytest.raises(RuntimeError, match="before it is entered"):
            cp.validating("configmaps")
