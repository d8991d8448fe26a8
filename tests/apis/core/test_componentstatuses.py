"""The status of the store, as `kubectl get componentstatuses` asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.storage.contract import StorageError
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

PATH = "/clusters/a/api/v1/componentstatuses"
TABLE = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
WARNING = '299 - "v1 ComponentStatus is deprecated in v1.19+"'
HEALTHY = {"type": "Healthy", "status": "True", "message": "ok"}


async def test_the_store_is_healthy(api: Api) -> None:
    """Each answer has the warning of kube-apiserver; other names are not found, in its words."""
    listed = await api("GET", PATH)
    assert listed.headers["warning"] == WARNING
    assert [(one["metadata"]["name"], one["conditions"]) for one in listed.json()["items"]] == [("etcd-0", [HEALTHY])]
    one = await api("GET", f"{PATH}/etcd-0")
    assert (one.json()["kind"], one.json()["conditions"], one.headers["warning"]) == ("ComponentStatus", [HEALTHY], WARNING)
    missing = await api("GET", f"{PATH}/scheduler")
    assert (missing.status_code, missing.json()["message"]) == (404, 'componentstatus "scheduler" not found')
    assert missing.json()["details"] == {"name": "scheduler", "kind": "componentstatus"}


@pytest.mark.parametrize(
    ("params", "found"), [({"fieldSelector": "metadata.name=etcd-0"}, 1), ({"labelSelector": "a"}, 0), ({"labelSelector": "!a"}, 1)]
)
async def test_selectors_are_applied(api: Api, params: dict[str, str], found: int) -> None:
    """As to any list."""
    assert len((await api.ok("GET", PATH, params=params))["items"]) == found


async def test_nothing_can_be_changed_or_watched(api: Api) -> None:
    """405, and discovery names the two verbs."""
    for method in ("POST", "DELETE"):
        assert (await api(method, PATH, {"metadata": {"name": "x"}})).status_code == 405
    assert (await api("GET", PATH, params={"watch": "1"})).status_code == 405
    resources = (await api.ok("GET", "/clusters/a/api/v1"))["resources"]
    found = next(one for one in resources if one["name"] == "componentstatuses")
    assert (found["verbs"], found["shortNames"], found["singularName"], found["namespaced"]) == (
        ["get", "list"],
        ["cs"],
        "componentstatus",
        False,
    )


async def test_a_store_that_fails_is_unhealthy(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says so, and no answer has the reason."""

    async def failing(*_: Any, **__: Any) -> None:
        raise StorageError("secret address")

    storage = api.control_plane.backend.access.storage
    get = storage.get

    async def get_or_fail(key: str, **more: Any) -> Any:
        return await (failing() if "component-status" in key else get(key, **more))

    monkeypatch.setattr(storage, "get", get_or_fail)
    table = await api.ok("GET", PATH, headers=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
    assert [row["cells"] for row in table["rows"]] == [["etcd-0", "Unhealthy", "the store does not answer", ""]]
