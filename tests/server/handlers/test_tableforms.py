"""Tables whose rows are kept have the contents of Tables whose objects are decoded one by one, with ages of the present."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.table import NAME, Column, IncludeObject, table_row
from kcp_py.apis.core.columns import COLUMNS as COLUMNS_OF_CORE
from kcp_py.apis.upstream.columns import UPSTREAM_COLUMNS
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.custom_resources import printer_columns
from kcp_py.registry.store import rendered
from kcp_py.server.handlers import list as handler
from kcp_py.server.handlers.tableforms import table_form_of
from kcp_py.server.negotiation import Representation
from kcp_py.testing import FakeClock
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES
from tests.server.handlers.conftest import Api, config_map, instance, make_crd, options
from tests.server.handlers.widgets import WIDGETS, install

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
COLUMNS: list[dict[str, Any]] = [
    {"name": "Alpha", "type": "string", "jsonPath": ".spec.alpha"},
    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]
NOW = 1_800_000_000.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOW, frozen=True)


@pytest.fixture
async def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> AsyncIterator[Api]:
    monkeypatch.setattr(rendered, "_READ", 3)
    monkeypatch.setattr(rendered, "_LEAST_KEPT", 1)
    async with (
        ControlPlane(replace(options(tmp_path), storage="sqlite"), clock=clock) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def listed(api: Api, path: str, params: Mapping[str, str], accept: str = TABLE) -> list[Any]:
    """All pages, without their tokens."""
    pages: list[Any] = []
    token = ""
    while True:
        page = await api.ok("GET", path, headers={"Accept": accept}, params={**params, **({"continue": token} if token else {})})
        token = page["metadata"].pop("continue", "")
        pages.append(page)
        if not token:
            return pages


@pytest.mark.anyio
async def test_kept_rows_are_those_of_decoded_objects(stored: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole, selected, in pages, with each part of the objects, with default objects, after writes and again; also of another cluster."""
    selections: list[dict[str, str]] = [
        {},
        {"labelSelector": "tier=gold"},
        {"labelSelector": "tier=none"},
        {"limit": "2"},
        {"limit": "2", "labelSelector": "tier"},
        {"includeObject": "None"},
        {"includeObject": "Object", "limit": "3"},
    ]
    paths = [MAPS, "/clusters/a/api/v1/configmaps", "/clusters/a/api/v1/namespaces", MAPS.replace("/a/", "/b/"), WIDGETS]
    await install(
        stored, make_crd(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, additionalPrinterColumns=COLUMNS)
    )

    async def put(number: int) -> None:
        labels = {"tier": ("gold", "tin")[number % 2]} if number % 3 else {}
        for cluster in "ab" if number % 4 else "a":
            await stored.ok("POST", MAPS.replace("/a/", f"/{cluster}/"), config_map(f"m{number}", {"k": "x"}, labels=labels))
        spec = {"alpha": number if number % 2 else '"\x00ä', "since": ("never", "2026-01-01T00:00:00+02:00", "", None)[number % 4]}
        widget = instance(f"w{number}", spec=spec)
        widget["metadata"]["labels"] = labels
        await stored.ok("POST", WIDGETS, widget)

    await asyncio.gather(*(put(number) for number in range(10)))
    for change in (None, "PUT", "DELETE"):
        if change == "PUT":
            await stored.ok("PUT", f"{MAPS}/m4", config_map("m4", {"new": "x"}, labels={"tier": "gold"}))
        elif change == "DELETE":
            await stored.ok("DELETE", f"{MAPS}/m5")
        for path in paths:
            for accept in (TABLE, TABLE.replace("v1", "v1beta1")):
                for params in selections:
                    found = [await listed(stored, path, params, accept) for _ in range(2)]
                    with monkeypatch.context() as context:
                        context.setattr(handler, "table_form_of", lambda *_, **__: None)
                        expected = await listed(stored, path, params, accept)
                    assert found == [expected, expected], (path, accept, params)


@pytest.mark.anyio
async def test_ages_of_kept_rows_grow(stored: Api, clock: FakeClock) -> None:
    """Only ages change with the time: those of the creation and those of other columns."""
    await install(
        stored, make_crd(schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True}, additionalPrinterColumns=COLUMNS)
    )
    await stored.ok("POST", WIDGETS, instance("one", spec={"alpha": "a", "since": "2027-01-15T07:00:00Z"}))
    shown = []
    for seconds in (5, 3600, 86400 * 3):
        await clock.advance(seconds)
        ((page,),) = [await listed(stored, WIDGETS, {})]
        shown.append(page["rows"][0]["cells"])
    assert shown == [["one", "a", "60m", "5s"], ["one", "a", "120m", "60m"], ["one", "a", "3d2h", "3d1h"]]


@pytest.mark.anyio
async def test_columns_of_another_definition_make_other_rows(stored: Api) -> None:
    """Neither a change of the definition nor another cluster's definition of the same resource shows kept rows of other columns."""
    other = WIDGETS.replace("/a/", "/b/")
    definitions = "/clusters/{}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for path, columns in ((WIDGETS, COLUMNS), (other, COLUMNS[:1])):
        await install(stored, make_crd(schema=OPEN, additionalPrinterColumns=columns), path.split("/")[2])
        await stored.ok("POST", path, instance("one", spec={"alpha": "a"}))
    rows = [(await listed(stored, path, {}))[0]["rows"][0]["cells"] for path in (WIDGETS, other)]
    assert rows == [["one", "a", None, "0s"], ["one", "a"]]
    changed = await stored.ok("GET", f"{definitions.format('a')}/widgets.example.com")
    changed["spec"]["versions"][0]["additionalPrinterColumns"] = COLUMNS[2:]
    await stored.ok("PUT", f"{definitions.format('a')}/widgets.example.com", changed)
    assert [(await listed(stored, path, {}))[0]["rows"][0]["cells"] for path in (WIDGETS, other)] == [["one", "0s"], ["one", "a"]]


@pytest.mark.anyio
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text('{}[]"\\:,\x00 aä', max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('{}"\\a\x00', max_size=3), inner, max_size=3),
        max_leaves=12,
    ),
    st.sampled_from(["string", "integer", "number", "boolean", "date"]),
    st.sampled_from(["2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z", "2027-01-01T00:00:00.25-01:30", "null", "", "x\x00y", 7, None]),
    st.sampled_from(["None", "Metadata", "Object"]),
    st.booleans(),
)
async def test_rows_of_any_object(value: Any, kind: str, created: Any, include: IncludeObject, typed: bool) -> None:  # noqa: FBT001
    """Whatever its fields and its times hold."""
    obj: dict[str, Any] = {"metadata": {"resourceVersion": "1", "name": "x", "creationTimestamp": created, "value": value}, "spec": value}
    columns = [{"name": "S", "type": kind, "jsonPath": ".spec"}, {"name": "A", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
    base = CONFIG_MAPS.resource if typed else replace(CONFIG_MAPS.resource, typed=False)
    resource = replace(base, columns=(*printer_columns(columns), *CONFIG_MAPS.resource.columns))
    form = table_form_of(resource, Representation("json", "Table", "v1"), include, now=NOW)
    assert form is not None
    whole = {"apiVersion": resource.group_version, "kind": resource.kind, **obj}
    document = orjson.dumps(obj if typed else whole)
    expected = orjson.dumps(table_row(whole, resource.columns, NOW, include_object=include))
    rows = b",".join(await form.elements([document, document]))
    assert form.shown(rows) == expected + b"," + expected


KINDS = {**COLUMNS_OF_CORE, **UPSTREAM_COLUMNS}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 2**64 - 1, 1.5, "", "True", "ä\x00", "2027-01-15T07:00:00Z", "2026-02-30T00:00:00Z", [], [None, "a"], {}]
)
TIMES = st.sampled_from([None, "2027-01-15T07:00:00Z", "2030-01-01T00:00:00.5+02:00", "never", 5])
CONTAINERS = st.lists(
    st.fixed_dictionaries({}, optional={"name": ODD, "image": st.just("x"), "restartPolicy": st.just("Always")}), max_size=2
)
STATUSES = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("a"), "restartCount": st.integers(0, 2)},
        optional={
            "ready": st.booleans(),
            "state": st.sampled_from([{"running": {}}, {"waiting": {"reason": "Wait"}}, {"terminated": {"exitCode": 1}}]),
            "lastState": st.fixed_dictionaries({"terminated": st.fixed_dictionaries({"finishedAt": TIMES})}),
        },
    ),
    max_size=2,
)
CONDITIONS = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["Ready", "Complete", "Initialized"]), "status": ODD}), max_size=2)
TEMPLATE = st.fixed_dictionaries({"spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"nodeSelector": ODD})})
OBJECTS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.just("one"), "managedFields": st.just([{"manager": "m", "fieldsV1": {"f:spec": {'f:"]},': {}}}}])},
            optional={
                "creationTimestamp": TIMES,
                "deletionTimestamp": TIMES,
                "ownerReferences": st.just([{"controller": True, "kind": "K"}]),
            },
        )
    },
    optional={
        "spec": ODD
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": CONTAINERS,
                "initContainers": CONTAINERS,
                "template": TEMPLATE,
                "jobTemplate": st.fixed_dictionaries({"spec": st.fixed_dictionaries({"template": TEMPLATE})}) | ODD,
                "selector": st.just({"matchLabels": {"a": "b"}}) | ODD,
                "replicas": ODD,
                "completions": ODD,
                "parallelism": ODD,
                "suspend": ODD,
                "readinessGates": st.just([{"conditionType": "Ready"}]) | ODD,
                "nodeName": ODD,
            },
        ),
        "status": ODD
        | st.fixed_dictionaries(
            {},
            optional={
                "phase": ODD,
                "reason": ODD,
                "conditions": CONDITIONS | ODD,
                "containerStatuses": STATUSES | ODD,
                "initContainerStatuses": STATUSES,
                "startTime": TIMES,
                "completionTime": TIMES,
                "lastScheduleTime": TIMES,
                "readyReplicas": ODD,
                "podIPs": st.just([{"ip": "10.0.0.1"}]),
            },
        ),
        "firstTimestamp": TIMES,
        "lastTimestamp": TIMES,
        "deprecatedLastTimestamp": TIMES,
        "eventTime": TIMES,
        "series": st.fixed_dictionaries({"count": ODD, "lastObservedTime": TIMES}) | ODD,
        "count": ODD,
        "involvedObject": st.just({"kind": "Pod", "name": "p", "fieldPath": "spec"}) | ODD,
        "regarding": st.just({"kind": "Pod", "name": "p"}) | ODD,
        "reportingInstance": ODD,
        "message": ODD,
        "note": ODD,
        "source": st.just({"component": "c", "host": "h"}) | ODD,
    },
)


@pytest.mark.anyio
@given(
    st.sampled_from(
        [
            ("", "pods"),
            ("", "events"),
            ("events.k8s.io", "events"),
            ("batch", "jobs"),
            ("batch", "cronjobs"),
            ("apps", "deployments"),
            ("apps", "daemonsets"),
            ("apps", "statefulsets"),
        ]
    )
    | st.sampled_from(sorted(KINDS)),
    st.lists(OBJECTS, min_size=1, max_size=4),
    st.sampled_from(["None", "Metadata", "Object"]),
)
async def test_rows_of_kinds_with_computed_columns(kind: tuple[str, str], objects: list[dict[str, Any]], include: IncludeObject) -> None:
    """Every column of every kind is kept: what its cells are said to read is enough, whatever the objects hold."""
    resource = replace(CONFIG_MAPS.resource, columns=KINDS[kind])
    form = table_form_of(resource, Representation("json", "Table", "v1"), include, now=NOW)
    assert form is not None
    wholes = [{"apiVersion": "v1", "kind": "ConfigMap", **obj} for obj in objects]
    try:
        expected = [orjson.dumps(table_row(whole, resource.columns, NOW, include_object=include)) for whole in wholes]
    except (AttributeError, TypeError) as error:
        with pytest.raises(type(error)):
            await form.elements([orjson.dumps(obj) for obj in objects])
        return
    rows = await form.elements([orjson.dumps(obj) for obj in objects])
    assert [form.shown(row) for row in rows] == expected


@pytest.mark.anyio
async def test_ages_within_texts_grow() -> None:
    """The time since the last restart of a pod and the duration of a job that runs are those of the present in kept rows."""
    since = "2027-01-15T07:00:00Z"
    status = {"containerStatuses": [{"restartCount": 3, "lastState": {"terminated": {"finishedAt": since}}}]}
    cases = ((("", "pods"), {"status": status}, "3 ({} ago)"), (("batch", "jobs"), {"status": {"startTime": since}}, "{}"))
    for kind, obj, text in cases:
        resource = replace(CONFIG_MAPS.resource, columns=KINDS[kind])
        forms = [table_form_of(resource, Representation("json", "Table", "v1"), "None", now=NOW + later) for later in (0, 86400 * 3)]
        first, second = (form for form in forms if form is not None)
        assert first.key == second.key
        kept = b",".join(await first.elements([orjson.dumps({"metadata": {"name": "one"}, **obj})]))
        shown = [form.shown(kept).decode() for form in (first, second)]
        assert [f'"{text.format(age)}"' in row for age, row in zip(("60m", "3d1h"), shown, strict=True)] == [True, True], shown


@pytest.mark.anyio
async def test_unusual_objects_are_in_their_places() -> None:
    """Objects with values of other types, columns in one another, and large objects do not change the order of rows, or other rows."""
    columns = [{"name": "A", "type": "string", "jsonPath": ".spec"}, {"name": "B", "type": "integer", "jsonPath": ".spec.size"}]
    others = [{"name": "C", "type": "string", "jsonPath": ".spec.größe"}, {"name": "D", "type": "string", "jsonPath": ".größe"}]
    specs: list[Any] = [
        {"size": 1, "größe": "a", "": "b"},
        {"": "c"},
        "text",
        {"size": 2.5},
        {"text": "x" * 70_000, "size": 3},
        None,
        {"size": True},
        [1],
        {"size": 4},
    ]
    objects = [
        {"metadata": {"name": f"n{number}"}, "": 1, **({"größe": number, "spec": spec} if spec else {})}
        for number, spec in enumerate(specs)
    ]
    for chosen in (columns, columns[1:], others, others[:1]):
        resource = replace(CONFIG_MAPS.resource, columns=printer_columns(chosen))
        form = table_form_of(resource, Representation("json", "Table", "v1"), "Metadata", now=NOW)
        assert form is not None
        rows = await form.elements([orjson.dumps(obj) for obj in objects])
        assert rows == [orjson.dumps(table_row(obj, resource.columns, NOW)) for obj in objects]


def test_forms_have_keys_of_their_own() -> None:
    """Rows of one resource, part or version are never answered as others. Cells that depend on the time in other ways are not kept."""
    resources = CONFIG_MAPS.resource, NAMESPACES.resource, replace(CONFIG_MAPS.resource, columns=(NAME,))
    includes: tuple[IncludeObject, ...] = ("None", "Metadata", "Object")
    forms = [
        table_form_of(resource, Representation("json", "Table", version), include, now=NOW)
        for resource in resources
        for version in ("meta.k8s.io/v1", "meta.k8s.io/v1beta1")
        for include in includes
    ]
    assert len({form.key for form in forms if form is not None}) == len(forms)
    late = replace(CONFIG_MAPS.resource, columns=(NAME, Column("Now", "string", "", "", 0, lambda _obj, now: now)))
    assert table_form_of(late, Representation("json", "Table", "v1"), "Metadata", now=NOW) is None
    for other in (Representation(), Representation("yaml", "Table", "v1"), Representation("json", "Table", "v1", pretty=True)):
        assert table_form_of(CONFIG_MAPS.resource, other, "Metadata", now=NOW) is None
