"""What a conversion webhook is asked, and what of its answer is believed."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from kcp_py.schema.crd.conversion_review import (
    ReviewError,
    check_converted,
    converted_objects,
    decode_answer,
    encode_review,
    restored_metadata,
    review_version,
)
from tests.corpus import needs_corpus
from tests.schema.go_tables import GoTable

TABLE = "pkg/apiserver/conversion/webhook_converter_test.json"
SUCCESS = {"status": "Success"}


def test_a_request_is_what_upstream_sends() -> None:
    """Down to the empty response."""
    body = encode_review("v1", "u", "example.com/v2", [b'{"a":1}', b'{"b":2}'])
    assert orjson.loads(body) == {
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": "u", "desiredAPIVersion": "example.com/v2", "objects": [{"a": 1}, {"b": 2}]},
        "response": {"uid": "", "convertedObjects": None, "result": {"metadata": {}}},
    }


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [(["v1", "v1beta1", "v2"], "v1"), (["v1beta1", "v1"], "v1beta1"), (["v2", "v1"], "v1"), (["vx"], ""), ([], "")],
    ids=["v1", "v1beta1 first", "unknown first", "unknown alone", "none"],
)
def test_the_first_version_that_is_spoken_is_chosen(versions: list[str], chosen: str) -> None:
    """In the webhook's order."""
    if chosen:
        assert review_version(versions) == chosen
    else:
        with pytest.raises(ReviewError, match="no supported conversion review versions"):
            review_version(versions)


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (200, b"", "0-length response with status code: 200 and content type: application/json"),
        (200, b"<html>", "couldn't get version/kind; json parse error: invalid character '<' looking for beginning of value"),
        (200, b"[" * 5000, "couldn't get version/kind; json parse error: "),
        (400, b"", "the server rejected our request for an unknown reason"),
        (404, b"secret", "the server could not find the requested resource"),
        (302, b"", "the server responded with the status code 302 but did not return more information"),
        (500, b"secret", 'an error on the server ("unknown") has prevented the request from succeeding'),
        (503, b"secret", "the server is currently unable to handle the request"),
        (500, b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"own words"}', "own words"),
        (500, b'{"kind":"Other","message":"secret"}', 'an error on the server ("unknown") has prevented the request from succeeding'),
        (500, b'{"kind":', 'an error on the server ("unknown") has prevented the request from succeeding'),
    ],
)
def test_what_is_no_review_is_told_without_its_content(status: int, body: bytes, text: str) -> None:
    """A URL of another service must not reveal its content to the author of the URL."""
    with pytest.raises(ReviewError) as caught:
        decode_answer(status, body)
    assert str(caught.value).startswith(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("document", [None, 1, "x", [], True])
def test_what_is_no_object_is_refused(document: Any) -> None:
    """In either version."""
    for version in ("v1", "v1beta1"):
        with pytest.raises(ReviewError, match="cannot unmarshal"):
            converted_objects(version, "uid", document)


@pytest.mark.parametrize("response", [None, [], 1, {"uid": 1}, {"uid": "uid", "result": []}, {"uid": "uid", "result": {"message": 1}}])
def test_responses_of_other_types_are_refused(response: Any) -> None:
    """Whatever stands where an object or a text is expected."""
    review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}
    with pytest.raises(ReviewError):
        converted_objects("v1", "uid", review)


def test_objects_that_are_no_list_are_none() -> None:
    """Their number is then wrong."""
    response = {"result": SUCCESS, "convertedObjects": {"0": {}}}
    assert converted_objects("v1beta1", "", {"response": response}) == []


ORIGINAL = {"apiVersion": "g/v1", "kind": "Widget", "metadata": {"name": "n", "namespace": "ns", "uid": "1"}}


@pytest.mark.parametrize(
    ("converted", "text"),
    [
        ({**ORIGINAL, "apiVersion": "g/v2"}, ""),
        (ORIGINAL, "invalid groupVersion (expected g/v2, received g/v1)"),
        ({**ORIGINAL, "apiVersion": 1}, "invalid groupVersion (expected g/v2, received )"),
        ({**ORIGINAL, "apiVersion": "g/v2", "kind": "Other"}, "invalid kind (expected Widget, received Other)"),
        ({"apiVersion": "g/v2"}, "Object 'Kind' is missing in the converted object"),
        ({**ORIGINAL, "apiVersion": "g/v2", "metadata": {"name": "m"}}, "must have the same name: n != m"),
        ({**ORIGINAL, "apiVersion": "g/v2", "metadata": {"name": "n"}}, "must have the same namespace: ns != "),
        ({**ORIGINAL, "apiVersion": "g/v2", "metadata": {"name": "n", "namespace": "ns", "uid": "2"}}, "must have the same UID: 1 != 2"),
        ({**ORIGINAL, "apiVersion": "g/v2", "metadata": ["n"]}, "must have the same name: n != "),
        ([], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_an_object_has_to_be_the_one_that_was_sent(converted: Any, text: str) -> None:
    """Except for its version."""
    if not text:
        check_converted(ORIGINAL, converted, "g/v2")
        return
    with pytest.raises(ReviewError) as caught:
        check_converted(ORIGINAL, converted, "g/v2")
    assert str(caught.value) == text


def test_labels_that_were_wrong_before_may_stay() -> None:
    """Only what the webhook changed is checked."""
    wrong = {"metadata": {"labels": {"a": "x y"}}}
    assert restored_metadata(wrong, wrong) == wrong["metadata"]
    with pytest.raises(ReviewError, match=r"metadata\.labels: Invalid value"):
        restored_metadata({"metadata": {}}, wrong)


@needs_corpus
def test_upstreams_cases_of_responses() -> None:
    """Each gives its objects or its error."""
    table = GoTable(TABLE)
    checked = 0
    for row in table.rows("TestGetConvertedObjectsFromResponse"):
        review = row["Response"]
        if not isinstance(review, dict) or "Unstructured" in review["$type"]:
            continue
        version = review["$type"].partition(".")[0]
        document = plain(review, {"metav1.StatusSuccess": "Success", "metav1.StatusFailure": "Failure"})
        if "ExpectErr" in row:
            with pytest.raises(ReviewError) as caught:
                converted_objects(version, "uid", document)
            assert row["ExpectErr"] in str(caught.value), row["Name"]
        else:
            assert len(converted_objects(version, "uid", document)) == len(row["ExpectObjects"] or ()), row["Name"]
        checked += 1
    assert checked == 17


def plain(literal: Any, constants: dict[str, Any]) -> Any:
    """The JSON of a literal of Go's review types."""
    if isinstance(literal, dict):
        if "$id" in literal:
            return constants.get(literal["$id"], {})
        fields: dict[str, Any] = {}
        for name, value in literal.items():
            if name == "TypeMeta":
                fields |= plain(value, constants)
            elif name != "$type":
                fields["uid" if name == "UID" else "apiVersion" if name == "APIVersion" else name[0].lower() + name[1:]] = plain(
                    value, constants
                )
        return fields
    return [plain(item, constants) for item in literal] if isinstance(literal, list) else literal


@needs_corpus
def test_upstreams_cases_of_metadata() -> None:
    """Labels and annotations are taken, everything else is restored."""
    checked = 0
    for row in GoTable(TABLE).rows("TestRestoreObjectMeta"):
        name, original, converted, expected, fails = row["$pos"]
        original, converted, expected = json.loads(json.dumps([repeated(original), repeated(converted), expected]))
        if fails:
            with pytest.raises(ReviewError):
                restored_metadata(original, converted)
        else:
            assert restored_metadata(original, converted) == expected["metadata"], name
        checked += 1
    assert checked == 15


def repeated(value: Any) -> Any:
    """A literal whose calls of `strings.Repeat` are carried out."""
    if isinstance(value, dict):
        if "$call" in value:
            return value["args"][0] * (value["args"][1] if isinstance(value["args"][1], int) else 64)
        return {name: repeated(item) for name, item in value.items()}
    return value
