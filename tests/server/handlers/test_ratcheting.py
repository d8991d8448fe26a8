"""What may stay invalid in an update: upstream's own cases where the corpus is present, on objects and on their status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from kcp_py.apimachinery.patches import merge_patch
from tests.corpus import CORPUS, needs_corpus
from tests.schema.go_tables import GoTable
from tests.server.handlers.conftest import Api, make_crd
from tests.server.handlers.widgets import WIDGETS, change_schema, install

pytestmark = [pytest.mark.anyio, needs_corpus]

TABLE = "test/integration/ratcheting_test.json"
NUMBER = {"type": "integer"}
TEXT = {"type": "string"}
SCHEMAS: dict[str, Any] = {
    "numberSchema": NUMBER,
    "stringSchema": TEXT,
    "numbersMapSchema": {"type": "object", "additionalProperties": NUMBER},
    "stringMapSchema": {"type": "object", "additionalProperties": TEXT},
}
APPLY = {"Content-Type": "application/apply-patch+yaml"}


class Operations(GoTable):
    """The table, whose schemas are partly variables."""

    def value(self, literal: Any) -> Any:
        """The JSON of a literal."""
        if isinstance(literal, dict) and (literal.get("$unary") in {"*", "&"}):
            return self.value(literal["x"])
        if isinstance(literal, dict) and literal.get("$id") in SCHEMAS:
            return SCHEMAS[literal["$id"]]
        return super().value(literal)


def cases() -> Iterator[Any]:
    """Those that Go enables and does not make with functions, on objects and on their status."""
    rows = Operations(TABLE).rows("TestRatchetingFunctionality") if CORPUS is not None else []
    for row in rows:
        if row.get("Operations") and not row.get("Disabled"):
            yield pytest.param(row, False, id=row["Name"])
            if not row.get("SkipStatus"):
                yield pytest.param(row, True, id=f"{row['Name']} in the status")


class Context:
    """One object and its definition, in the middle of a case."""

    def __init__(self, api: Api, *, status: bool) -> None:
        self._api = api
        self._status = status
        self._table = Operations(TABLE)
        self._schema: dict[str, Any] = {}

    async def do(self, operation: dict[str, Any]) -> httpx.Response | None:
        """One operation; the answer of the server, for operations on the object."""
        arguments = operation["$pos"]
        match operation["$type"]:
            case "updateMyCRDV1Beta1Schema":
                await self._serve(self._table.value(arguments[0]))
            case "patchMyCRDV1Beta1Schema":
                await self._serve(merge_patch.apply(self._schema, arguments[1]))
            case "applyPatchOperation":
                return await self._apply(arguments[3])
            case "expectError":
                response = await self.do(arguments[0])
                assert response is not None
                assert response.status_code == 422, (arguments[0], response.text)
                return None
            case other:
                pytest.fail(other)
        return None

    async def _serve(self, schema: dict[str, Any]) -> None:
        self._schema = schema
        root = {"type": "object", "properties": {"status": schema}} if self._status else schema
        await change_schema(self._api, root)

    async def _apply(self, fields: Any) -> httpx.Response:
        if isinstance(fields, str):
            fields = yaml.safe_load(fields.replace("\t", ""))
        obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}}
        obj |= {"status": fields} if self._status else fields
        path = f"{WIDGETS}/one/status" if self._status else f"{WIDGETS}/one"
        content = json.dumps(obj).encode()
        return await self._api("PATCH", path, content=content, headers=APPLY, params={"fieldManager": "manager"})


@pytest.mark.parametrize(("row", "status"), list(cases()))
async def test_upstreams_cases(api: Api, row: dict[str, Any], *, status: bool) -> None:
    """What did not change is let through, what did has to be valid."""
    await install(api, make_crd(subresources={"status": {}} if status else {}))
    if status:
        await api.ok("POST", WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}})
    context = Context(api, status=status)
    for operation in row["Operations"]:
        response = await context.do(operation)
        if response is not None:
            assert response.status_code < 300, (operation, response.text)
