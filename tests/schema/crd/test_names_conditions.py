"""Which names a CRD gets, and its conditions."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.crd.names_conditions import BuiltinNames, accepted_names, holds_its_names

NOW = "2026-01-02T03:04:05Z"
THEN = "2025-01-02T03:04:05Z"


def crd(group: str = "example.com", *, generation: int | None = None, **names: Any) -> dict[str, Any]:
    names = {"plural": "alfas", "singular": "alfa", "kind": "Alfa", "listKind": "AlfaList", **names}
    metadata: dict[str, Any] = {"name": f"{names['plural']}.{group}"}
    if generation is not None:
        metadata["generation"] = generation
    return {"metadata": metadata, "spec": {"group": group, "names": names}}


def holding(definition: dict[str, Any]) -> dict[str, Any]:
    """The CRD after its names were accepted."""
    status = accepted_names(definition, [], now=THEN)
    return {**definition, "status": {"acceptedNames": status.accepted_names, "conditions": status.conditions}}


def by_type(conditions: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    return {item["type"]: (item["status"], item["reason"], item["message"]) for item in conditions}


def test_names_without_conflict_are_accepted():
    """A CRD alone in its group gets all its names and is established."""
    status = accepted_names(crd(shortNames=["al"], categories=["all"]), [crd("other.com")], now=NOW)
    assert status.accepted_names == {
        "plural": "alfas",
        "singular": "alfa",
        "shortNames": ["al"],
        "kind": "Alfa",
        "listKind": "AlfaList",
        "categories": ["all"],
    }
    assert by_type(status.conditions) == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": ("True", "InitialNamesAccepted", "the initial names have been accepted"),
    }
    assert all(item["lastTransitionTime"] == NOW for item in status.conditions)


def test_a_name_in_use_is_not_accepted_but_the_others_are():
    """A short name that another CRD of the group holds is refused, the rest is kept."""
    other = holding(crd(plural="bravos", singular="bravo", kind="Bravo", listKind="BravoList", shortNames=["x"]))
    status = accepted_names(crd(shortNames=["x"]), [other], now=NOW)
    assert status.accepted_names == {"plural": "alfas", "singular": "alfa", "kind": "Alfa", "listKind": "AlfaList"}
    assert by_type(status.conditions) == {
        "NamesAccepted": ("False", "ShortNamesConflict", '"x" is already in use'),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }


def test_plural_singular_and_short_names_share_a_pool():
    """A plural may not equal another's singular; the last conflict gives the reason."""
    other = holding(crd(plural="bravos", singular="alfas", kind="Bravo", listKind="Alfa"))
    status = accepted_names(crd(), [other], now=NOW)
    assert status.accepted_names["plural"] == ""
    assert by_type(status.conditions)["NamesAccepted"] == ("False", "KindConflict", '"Alfa" is already in use')


def test_builtin_names_are_in_use():
    """A CRD cannot take the kind of a built-in resource of its group."""
    status = accepted_names(crd(), [], [BuiltinNames("widgets", "widget", "Alfa", "WidgetList")], now=NOW)
    assert by_type(status.conditions)["NamesAccepted"] == ("False", "KindConflict", '"Alfa" is already in use')


def test_names_are_accepted_once_they_are_free():
    """The conflict ends with the other CRD."""
    other = holding(crd(plural="bravos", singular="bravo", kind="Bravo", listKind="BravoList", shortNames=["x"]))
    first = accepted_names(crd(shortNames=["x"]), [other], now=THEN)
    refused = {**crd(shortNames=["x"]), "status": {"acceptedNames": first.accepted_names, "conditions": first.conditions}}
    status = accepted_names(refused, [], now=NOW)
    assert by_type(status.conditions)["Established"] == ("True", "InitialNamesAccepted", "the initial names have been accepted")
    assert status.accepted_names["shortNames"] == ["x"]


def test_established_is_sticky():
    """A later conflict changes NamesAccepted only, and its time of transition."""
    established = holding(crd(generation=1))
    established["spec"]["names"] = {**established["spec"]["names"], "shortNames": ["x"]}
    other = holding(crd(plural="bravos", singular="bravo", kind="Bravo", listKind="BravoList", shortNames=["x"]))
    status = accepted_names(established, [other], now=NOW)
    times = {item["type"]: item["lastTransitionTime"] for item in status.conditions}
    assert by_type(status.conditions)["Established"][0] == "True"
    assert by_type(status.conditions)["NamesAccepted"][1] == "ShortNamesConflict"
    assert times == {"NamesAccepted": NOW, "Established": THEN}


def test_conditions_tell_the_generation_they_speak_of():
    """observedGeneration is that of the definition."""
    status = accepted_names(crd(generation=3), [], now=NOW)
    assert {item["observedGeneration"] for item in status.conditions} == {3}


def test_other_conditions_are_kept():
    """Terminating and the like are left alone."""
    definition = crd()
    definition["status"] = {"conditions": [{"type": "Terminating", "status": "True", "lastTransitionTime": THEN}]}
    assert accepted_names(definition, [], now=NOW).conditions[0] == {"type": "Terminating", "status": "True", "lastTransitionTime": THEN}


@pytest.mark.parametrize(
    ("bundle", "reason"),
    [
        pytest.param(None, "InitialNamesAccepted", id="none"),
        pytest.param("", "InitialNamesAccepted", id="empty"),
        pytest.param("bm90IFBFTQ==", "InvalidCABundle", id="no certificate"),
        pytest.param("%", "InvalidCABundle", id="no base64"),
    ],
)
def test_a_webhook_that_nobody_can_trust_is_not_established(bundle: str | None, reason: str) -> None:
    """Names are accepted all the same, and established CRDs stay established."""
    definition = crd()
    client = {"url": "https://example.com", **({} if bundle is None else {"caBundle": bundle})}
    definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client}}
    conditions = by_type(accepted_names(definition, [], now=NOW).conditions)
    assert conditions["NamesAccepted"][0] == "True"
    assert conditions["Established"][1] == reason
    if reason == "InvalidCABundle":
        assert conditions["Established"] == ("False", reason, "The conversion webhook CABundle is invalid")
    held = {**definition, "status": holding(crd())["status"]}
    assert by_type(accepted_names(held, [], now=NOW).conditions)["Established"][0] == "True"


def test_held_names_need_no_look_at_others():
    """A CRD that holds what it asks for keeps it, even where another one claims to hold the same."""
    held = holding(crd(shortNames=["x"]))
    assert holds_its_names(held)
    assert accepted_names(held, [holding(crd(plural="bravos", shortNames=["x"]))], now=NOW) == accepted_names(held, [], now=NOW)
    assert not holds_its_names(crd())
    changes: list[dict[str, Any]] = [{"shortNames": ["y"]}, {"shortNames": []}, {"singular": "one"}, {"listKind": "Alfas"}]
    for change in changes:
        assert not holds_its_names({**held, "spec": {"group": "example.com", "names": {**held["spec"]["names"], **change}}})
