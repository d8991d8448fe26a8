"""What writes do to `metadata.managedFields`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.entries import decode_entries, encode_entries
from kcp_py.apimachinery.managedfields.fieldsets import ordered
from kcp_py.apimachinery.managedfields.ownership import ConflictsError, Versions
from kcp_py.apimachinery.managedfields.tracking import ManagedWrite, conflict_message, conflicts_of, track_apply, track_update
from kcp_py.apimachinery.managedfields.types import MergeType
from tests.schema.reading import merge_type

PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}},
}
KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "ports": PORTS, "args": {"type": "array"}}},
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    },
    resource=True,
)
V1 = "example.com/v1"


def versions(kind: MergeType = KIND) -> Versions:
    return Versions(V1, kind, lambda obj, _version: (kind, obj), key=object())


def widget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}


def writer(name: str, second: int = 0, **more: Any) -> ManagedWrite:
    return ManagedWrite(name=name, time=f"2024-01-01T00:00:0{second}Z", **more)


def created(name: str = "creator", **spec: Any) -> dict[str, Any]:
    obj = widget(**spec)
    track_update(versions(), None, obj, writer(name))
    obj["metadata"]["uid"] = "1"
    return obj


def changed(live: dict[str, Any], by: ManagedWrite, **spec: Any) -> dict[str, Any]:
    obj: dict[str, Any] = json.loads(json.dumps(live))
    obj["spec"] = spec
    track_update(versions(), live, obj, by)
    return obj


def entries(obj: dict[str, Any]) -> list[tuple[str, str, str, Any]]:
    return [
        (entry["manager"], entry["operation"], entry.get("time", ""), entry["fieldsV1"])
        for entry in obj["metadata"].get("managedFields") or ()
    ]


def test_create():
    """All fields of a new object are its creator's, but those of the server."""
    obj = created(replicas=1, ports=[{"port": 80}])
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "creator",
            "operation": "Update",
            "apiVersion": V1,
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:spec": {
                    ".": {},
                    "f:replicas": {},
                    "f:ports": {".": {}, 'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}},
                }
            },
        }
    ]


def test_update_takes_what_it_changes():
    """A changed field gets a new owner, one that is gone has none, and the others keep theirs."""
    live = created(replicas=1, args=["a"])
    new = changed(live, writer("other", 1), replicas=2)
    assert entries(new) == [
        ("creator", "Update", "2024-01-01T00:00:00Z", {"f:spec": {}}),
        ("other", "Update", "2024-01-01T00:00:01Z", {"f:spec": {"f:replicas": {}}}),
    ]


def test_update_without_a_change():
    """Entries stay as they are, times included, where only the server's own fields differ."""
    live = created(replicas=1)
    new = json.loads(json.dumps(live))
    new["metadata"]["generation"] = 7
    track_update(versions(), live, new, writer("creator", 5))
    assert new["metadata"]["managedFields"] == live["metadata"]["managedFields"]


def test_updates_of_one_manager_are_one_entry():
    """Updates of one manager become one entry, with the time of the last."""
    new = changed(created(replicas=1), writer("creator", 3), replicas=2, args=[])
    assert entries(new) == [("creator", "Update", "2024-01-01T00:00:03Z", {"f:spec": {".": {}, "f:replicas": {}, "f:args": {}}})]


@pytest.mark.parametrize("given", [[], [{}]])
def test_reset(given: list[Any]):
    """An empty list, or one of an empty entry, forgets all owners."""
    live = created(replicas=1)
    new = widget(replicas=2)
    new["metadata"]["managedFields"] = given
    track_update(versions(), live, new, writer("other"))
    assert "managedFields" not in new["metadata"]


@pytest.mark.parametrize(
    "given",
    [
        None,
        {},
        "x",
        [1],
        [{"operation": "Nothing"}],
        [{"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV2", "fieldsV1": {}}],
        [{"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": {"f:a": 1}}],
        [{"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": {"nonsense": {}}}],
        [{"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": []}, {}],
        [{"manager": 1, "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1"}],
        [{"manager": "m", "operation": [], "apiVersion": V1, "fieldsType": "FieldsV1"}],
        [{"manager": "m", "operation": "Update", "apiVersion": V1, "fieldsType": "FieldsV1", "time": 5}],
    ],
)
def test_entries_that_cannot_be_read(given: Any):
    """They are ignored in an update: the stored ones stay."""
    live = created(replicas=1)
    new = widget(replicas=1)
    new["metadata"]["managedFields"] = given
    track_update(versions(), live, new, writer("other"))
    assert new["metadata"]["managedFields"] == live["metadata"]["managedFields"]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"f:a": None}, {"f:a": {}}),
        ({"f:a": {".": 5, "f:b": {}}}, {"f:a": {".": {}, "f:b": {}}}),
        ({"f:a": {}, "x:later": 5, "::": []}, {"f:a": {}}),
        ({"i:01": {}}, {"i:1": {}}),
        ({"v:1.0": {"f:a": {}}, "v:1": {}}, {"v:1": {".": {}, "f:a": {}}}),
        ({'v:"<"': {}, 'k:{"b":"&","a":1}': {}}, {'v:"\\u003c"': {}, 'k:{"a":1,"b":"\\u0026"}': {}}),
    ],
    ids=["null", "own", "unknown", "index", "spellings", "escapes"],
)
def test_entries_in_other_words(given: dict[str, Any], read: dict[str, Any]):
    """What clients write is read as Go reads it, and written as Go writes it."""
    entry = {"manager": "m", "operation": "Apply", "apiVersion": V1, "fieldsType": "FieldsV1", "fieldsV1": given}
    entry["time"] = "2020-01-01T01:00:00.5+01:00"
    new = created(replicas=1) | {"metadata": {"name": "a", "managedFields": [entry]}}
    track_update(versions(), created(replicas=1), new, writer("n"))
    assert entries(new)[0] == ("m", "Apply", "2020-01-01T00:00:00Z", read)


def test_given_entries_replace():
    """Readable entries of an update replace the stored ones, in the one spelling that compares."""
    live = created(replicas=1)
    new = widget(replicas=1)
    element = 'k:{"protocol": "TCP", "port": 80.0}'
    fields: Any = {"f:spec": {"f:replicas": {".": {}}, "f:ports": {element: {}}, "x:later": {}}}
    new["metadata"]["managedFields"] = [
        {
            "manager": "m",
            "operation": "Apply",
            "apiVersion": V1,
            "fieldsType": "FieldsV1",
            "fieldsV1": fields,
            "time": "2024-01-01T00:00:09Z",
        }
    ]
    track_update(versions(), live, new, writer("other"))
    assert entries(new) == [
        ("m", "Apply", "2024-01-01T00:00:09Z", {"f:spec": {"f:replicas": {}, "f:ports": {'k:{"port":80,"protocol":"TCP"}': {}}}})
    ]


def test_no_tracking_where_it_was_reset():
    """An update of an object without owners does not begin to track, as upstream."""
    live = widget(replicas=1)
    assert "managedFields" not in changed(live, writer("other"), replicas=2)["metadata"]


def test_status_is_its_own_entry():
    """An update through a subresource has an entry of its own, and cannot write entries."""
    live = created(replicas=1)
    new = json.loads(json.dumps(live)) | {"status": {"ready": True}}
    new["metadata"]["managedFields"] = []
    track_update(versions(), live, new, writer("creator", 1, subresource="status"))
    assert [(entry["manager"], entry.get("subresource")) for entry in new["metadata"]["managedFields"]] == [
        ("creator", None),
        ("creator", "status"),
    ]


def test_ancient_changes():
    """The oldest of more than ten updaters become one."""
    live = created(args=[])
    for number in range(12):
        new = json.loads(json.dumps(live))
        new["metadata"].setdefault("labels", {})[f"l{number:02}"] = "x"
        track_update(versions(), live, new, ManagedWrite(name=f"m{number:02}", time=f"2024-01-01T00:00:{number:02}Z"))
        live = new
    names = [name for name, *_ in entries(live)]
    assert len(names) == 10
    assert names[0] == "ancient-changes"
    assert names[1:] == [f"m{number:02}" for number in range(3, 12)]


def applied(live: dict[str, Any] | None, by: ManagedWrite, *, force: bool = False, **spec: Any) -> dict[str, Any]:
    return track_apply(versions(), live, widget(**spec), by, force=force)[0]


def test_apply_creates():
    """Applying to nothing makes the object."""
    obj = applied(None, writer("one"), replicas=1)
    assert obj["spec"] == {"replicas": 1}
    assert entries(obj) == [("one", "Apply", "2024-01-01T00:00:00Z", {"f:spec": {"f:replicas": {}}})]


def test_apply_that_changes_nothing():
    """Repeating an apply keeps the object and its times, byte for byte."""
    live = applied(None, writer("one"), replicas=1, ports=[{"port": 80}])
    assert applied(live, writer("one", 9), replicas=1, ports=[{"port": 80}]) == live


def test_apply_removes_what_it_no_longer_has():
    """Fields without another owner go with their last applier; shared ones stay."""
    live = applied(None, writer("one"), replicas=1, args=["a"], ports=[{"port": 80}, {"port": 81}])
    live = applied(live, writer("two", 1), args=["a"])
    new = applied(live, writer("one", 2), ports=[{"port": 81}])
    assert new["spec"] == {"args": ["a"], "ports": [{"port": 81}]}


def test_conflicts():
    """Another value than its owner's is a conflict, with upstream's words; force takes the field."""
    live = changed(applied(None, writer("one"), replicas=1), writer("ctl", 1), replicas=2)
    with pytest.raises(ConflictsError) as refused:
        applied(live, writer("two", 2), replicas=3)
    conflicts = conflicts_of(refused.value)
    assert conflict_message(conflicts) == ('Apply failed with 1 conflict: conflict with "ctl" using example.com/v1: .spec.replicas')
    new = applied(live, writer("two", 2), force=True, replicas=3)
    assert entries(new) == [("two", "Apply", "2024-01-01T00:00:02Z", {"f:spec": {"f:replicas": {}}})]


def test_many_conflicts():
    """Several conflicts are listed by manager."""
    live = changed(applied(None, writer("one"), replicas=1, args=["a"]), writer("ctl", 1), replicas=2, args=["a"])
    with pytest.raises(ConflictsError) as refused:
        applied(live, writer("two", 2), replicas=3, args=["b"])
    assert conflict_message(conflicts_of(refused.value)) == (
        'Apply failed with 2 conflicts: conflicts with "ctl" using example.com/v1:\n- .spec.replicas\nconflicts with "one":\n- .spec.args'
    )


def test_before_first_apply():
    """The fields of an untracked object get an owner, so that they can conflict."""
    live = widget(replicas=1)
    with pytest.raises(ConflictsError) as refused:
        applied(live, writer("one"), replicas=2)
    assert conflicts_of(refused.value)[0].manager == '"before-first-apply" using example.com/v1'
    assert [name for name, *_ in entries(applied(live, writer("one"), replicas=1))] == ["one", "before-first-apply"]


def test_before_first_apply_through_a_subresource():
    """Fields from before tracking count as written through the same endpoint."""
    live = widget(replicas=1) | {"status": {"ready": False}}
    config = {"apiVersion": V1, "kind": "Widget", "metadata": {"name": "a"}, "status": {"ready": True}}
    status = writer("ctl", subresource="status", ignored={"f:spec": {}, "f:metadata": {}})
    with pytest.raises(ConflictsError) as refused:
        track_apply(versions(), live, config, status, force=False)
    assert conflict_message(conflicts_of(refused.value)) == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" with subresource "status" using example.com/v1: .status.ready'
    )


def test_an_entry_for_no_change_has_no_time():
    """An apply of the present values changes nothing; entries keep their times, or stay without one."""
    live = applied(None, writer("one"), replicas=1)
    live = applied(live, writer("two", 1), replicas=1)
    live = applied(live, writer("one", 2), replicas=1)
    fields: dict[str, Any] = {"f:spec": {"f:replicas": {}}}
    assert entries(live) == [("two", "Apply", "", fields), ("one", "Apply", "2024-01-01T00:00:00Z", fields)]


def test_the_name_stays():
    """Metadata that was applied before and has only a name now is not taken away whole."""
    config = widget(replicas=1)
    config["metadata"]["labels"] = {"a": "b"}
    live, _ = track_apply(versions(), None, config, writer("one"), force=False)
    assert applied(live, writer("one", 1), replicas=1)["metadata"]["name"] == "a"


def test_conflicts_are_listed_by_upstreams_identifiers():
    """Of one manager's entries that of a subresource comes first, as the JSON of the entries does."""
    live = widget(replicas=1) | {"status": {"ready": False}}
    track_update(versions(), None, live, writer("ctl"))
    live["metadata"]["uid"] = "1"
    new = json.loads(json.dumps(live)) | {"status": {"ready": True}}
    track_update(versions(), live, new, writer("ctl", subresource="status"))
    config = widget(replicas=2) | {"status": {"ready": False}}
    with pytest.raises(ConflictsError) as refused:
        track_apply(versions(), new, config, writer("two"), force=False)
    assert [(conflict.manager, conflict.path) for conflict in conflicts_of(refused.value)] == [
        ('"ctl" with subresource "status" using example.com/v1', ".status.ready"),
        ('"ctl" using example.com/v1', ".spec.replicas"),
    ]


def test_updates_know_what_has_become_atomic():
    """Owners of parts of a value that has become atomic own the whole, also in versions other than the request's."""
    live = changed(created(replicas=1, ports=[{"port": 80}]), writer("other", 1), replicas=1, ports=[{"port": 80}, {"port": 81}])
    atomic = merge_type(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"replicas": {}, "ports": {"type": "array"}}}}},
        resource=True,
    )
    for entry in live["metadata"]["managedFields"]:
        entry["apiVersion"] = "example.com/v0"
    known = Versions(V1, atomic, lambda obj, _version: (atomic, obj), {"example.com/v0": atomic}.get)
    new = json.loads(json.dumps(live))
    track_update(known, live, new, writer("third", 2))
    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"]["f:ports"] for entry in new["metadata"]["managedFields"]}
    assert owned == {"creator": {}, "other": {}}


def test_migration_from_client_side_apply():
    """`kubectl apply --server-side` takes over what `kubectl apply` has applied, and keeps the annotation of the latter."""
    last = json.dumps(widget(replicas=1))
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": last}
    live = widget(replicas=1, args=["a"])
    live["metadata"]["annotations"] = annotations
    track_update(versions(), None, live, writer("kubectl-client-side-apply"))
    live["metadata"]["uid"] = "1"
    with pytest.raises(ConflictsError):
        applied(live, writer("someone"), replicas=2)
    with pytest.raises(ConflictsError) as refused:
        applied(live, writer("kubectl"), replicas=2, args=["b"])
    assert [conflict.path for conflict in conflicts_of(refused.value)] == [".spec.args"]
    new = applied(live, writer("kubectl", 1), replicas=2)
    assert new["spec"] == {"replicas": 2, "args": ["a"]}
    kept = new["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
    assert json.loads(kept) == widget(replicas=2)


def test_inputs_stay():
    """Neither the live object nor the configuration is changed."""
    live = created(replicas=1, ports=[{"port": 80}])
    config = widget(replicas=1, ports=[{"port": 81}])
    before = json.dumps([live, config])
    track_apply(versions(), live, config, writer("one"), force=True)
    assert json.dumps([live, config]) == before


def test_keys_that_no_64_bits_hold_are_owned_as_they_are() -> None:
    """A huge number as the key of a list's item is one item, and no failure."""
    obj = created(ports=[{"port": 2.0**70, "protocol": "TCP"}])
    assert changed(obj, writer("other"), ports=[{"port": 2.0**70, "protocol": "TCP"}])["spec"] == obj["spec"]


def test_fields_are_written_in_order() -> None:
    """Upstream's, whatever the order in the object: names, items with keys, which compare by value, values, and indices by number."""
    fields: dict[str, Any] = {
        "i:10": {},
        'v:"b"': {},
        "v:2": {},
        'k:{"port":443}': {"f:z": {}, ".": {}, "f:a": {}},
        'k:{"port":80}': {},
        "f:b": {},
        "i:9": {},
        "f:B": {},
        "v:10": {},
        'k:{"name":"x","port":1}': {},
    }
    told = list(ordered(fields))
    assert told == ["f:B", "f:b", 'k:{"name":"x","port":1}', 'k:{"port":80}', 'k:{"port":443}', "v:2", "v:10", 'v:"b"', "i:9", "i:10"]
    assert list(ordered(fields)['k:{"port":443}']) == [".", "f:a", "f:z"]


@pytest.mark.parametrize(
    "change",
    [{}, {"time": None}, {"manager": None}, {"manager": ""}, {"subresource": "status"}, {"operation": "Apply"}, {"fieldsV1": {}}, {"x": 1}],
    ids=["usual", "no time", "no manager", "empty manager", "subresource", "apply", "no fields", "unknown member"],
)
def test_stored_entries_are_read_as_sent_ones(change: dict[str, Any]) -> None:
    """Entries in the usual form, which are read faster, and all others."""
    usual = {"manager": "m", "operation": "Update", "apiVersion": V1, "time": "2024-01-01T00:00:00Z", "fieldsType": "FieldsV1"}
    entry = {name: value for name, value in {**usual, "fieldsV1": {"f:spec": {"f:a": {}}}, **change}.items() if value is not None}
    other = {**usual, "manager": "other", "fieldsV1": {"f:b": {}}}
    stored, sent = decode_entries([entry, other], stored=True), decode_entries([entry, other])
    assert (stored.owners, stored.times) == (sent.owners, sent.times)
    assert encode_entries(stored) == encode_entries(sent)
