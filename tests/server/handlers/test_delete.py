"""DELETE: the words of failed preconditions."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api, config_map, definition

pytestmark = pytest.mark.anyio

CORE = "/clusters/a/api/v1"
DEFINITIONS = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_a_failed_precondition_names_the_kind(api: Api) -> None:
    """As upstream's generic store, which names the resource everywhere else."""
    path = f"{CORE}/namespaces/default/configmaps"
    uid = (await api.ok("POST", path, config_map("one")))["metadata"]["uid"]
    status = await api.fails(409, "DELETE", f"{path}/one", {"preconditions": {"uid": "other"}})
    assert status["message"].startswith(
        f'Operation cannot be fulfilled on ConfigMap "one": the UID in the precondition (other) does not match the UID in record ({uid}). '
    )
    assert status["details"] == {"name": "one", "kind": "ConfigMap"}


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_namespaces_and_definitions_have_their_own_words(api: Api, field: str) -> None:
    """Their preconditions are checked before the generic store sees the request."""
    name = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
    space = await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "n"}})
    status = await api.fails(409, "DELETE", f"{CORE}/namespaces/n", {"preconditions": {field: "7"}})
    assert status["message"] == (
        f'Operation cannot be fulfilled on namespaces "n": Precondition failed: {name} in precondition: 7, '
        f"{name} in object meta: {space['metadata'][field]}"
    )
    widgets = (await api.ok("POST", DEFINITIONS, definition()))["metadata"]["name"]
    status = await api.fails(409, "DELETE", f"{DEFINITIONS}/{widgets}", {"preconditions": {field: "7"}})
    assert (
        f'customresourcedefinitions.apiextensions.k8s.io "{widgets}": precondition failed: {name} in precondition: 7' in status["message"]
    )
