"""Answers of webhooks and what clients get of them. The table is recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.webhook.review import AnswerError, encode_review, read_answer, refusal_of, review_version
from tests.admission.webhook.conftest import MAPS, Hooks, config_map, configure
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
CASES = json.loads((Path(__file__).parent / "answers.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_answers(api: Api, hooks: Hooks, case: dict[str, Any]) -> None:
    """Each answer of a webhook leads to the object or to the Status to which it leads upstream."""
    hooks.raw["/x"] = (case["status"], case["body"])
    webhook = hooks.webhook("/x", name="hook.example.com", admissionReviewVersions=case["versions"], failurePolicy=case["failurePolicy"])
    await configure(api, case["kind"], webhook)
    answer = await api("POST", MAPS, config_map())
    assert answer.status_code == case["code"], answer.text
    found = answer.json()
    if case["code"] == 201:
        assert found["data"] == case["data"]
        return
    (asked,) = hooks.asked()
    assert found["message"] == case["message"].replace("UID", asked["uid"])
    assert found.get("reason", "") == case["reason"]
    assert found.get("details") == json.loads(json.dumps(case["details"]).replace("UID", asked["uid"]))


def test_versions() -> None:
    """A webhook is asked in the first of its versions that is known."""
    assert review_version(["v2", "v1beta1", "v1"]) == "v1beta1"
    with pytest.raises(AnswerError, match="does not accept known AdmissionReview versions"):
        review_version(["v2"])


def test_reviews() -> None:
    """A review has its kind, the version that was agreed on, and the uid by which the answer is known."""
    review = json.loads(encode_review("v1", "u", {"operation": "CREATE"}))
    assert review == {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {"uid": "u", "operation": "CREATE"},
    }


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ([], "json: cannot unmarshal array into Go struct field AdmissionReview.response of type v1.AdmissionResponse"),
        ({"warnings": "x"}, "json: cannot unmarshal string into Go struct field AdmissionResponse.response.warnings of type"),
        ({"warnings": [1]}, "json: cannot unmarshal number into Go struct field AdmissionResponse.response.warnings of type string"),
        ({"auditAnnotations": {"a": 1}}, "AdmissionResponse.response.auditAnnotations of type string"),
        ({"status": {"code": "x"}}, "json: cannot unmarshal string into Go struct field Status.response.status.code of type int32"),
        ({"uid": "u", "patch": "e30=", "patchType": ""}, 'webhook returned invalid response.patchType of ""'),
    ],
)
def test_values_of_wrong_types(response: Any, message: str) -> None:
    """A value of another type makes the answer unusable, as for a decoder of Go."""
    document = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
    with pytest.raises(AnswerError) as raised:
        read_answer(document, "v1", "u", mutating=True)
    assert message in str(raised.value)


@pytest.mark.parametrize(("code", "expected"), [(None, 400), (200, 400), (418, 418), (5000, 599)])
def test_codes_of_refusals(code: int | None, expected: int) -> None:
    """A refusal is an error, and has a code that HTTP has."""
    assert refusal_of("a.b.c", {"code": code}).code == expected
