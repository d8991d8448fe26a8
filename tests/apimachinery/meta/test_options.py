"""Options of requests."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta import options as metaoptions
from kcp_py.apimachinery.meta.options import DeleteOptions, Preconditions


def refused(decode, *args, **kwargs) -> tuple[int, str]:
    with pytest.raises(StatusError) as caught:
        decode(*args, **kwargs)
    return caught.value.code, caught.value.message


def query(text: str) -> dict[str, list[str]]:
    """`a=b&a=c` as the multi-dict that servers parse it into."""
    found: dict[str, list[str]] = {}
    for pair in filter(None, text.split("&")):
        key, _, value = pair.partition("=")
        found.setdefault(key, []).append(value)
    return found


def test_nothing_asked_gives_shared_defaults():
    """An empty query costs nothing."""
    assert metaoptions.decode_list_options({}) is metaoptions.decode_list_options({})
    assert metaoptions.decode_create_options({}).field_validation == "Warn"
    assert metaoptions.decode_patch_options({}, apply=False).force is None
    assert metaoptions.decode_update_options({}).dry_run is False
    assert metaoptions.decode_delete_options({}) == DeleteOptions()


def test_list_options():
    """Every parameter of a watch."""
    options = metaoptions.decode_list_options(
        query(
            "labelSelector=a in (b)&fieldSelector=metadata.name=x&watch=1&allowWatchBookmarks=true&resourceVersion=5"
            "&resourceVersionMatch=NotOlderThan&timeoutSeconds=30&limit=500&sendInitialEvents=true&unknown=1"
        )
    )
    assert str(options.label_selector) == "a in (b)"
    assert options.field_selector.requires_exact_match("metadata.name") == "x"
    assert (options.watch, options.allow_watch_bookmarks, options.send_initial_events) == (True, True, True)
    assert (options.resource_version, options.resource_version_match) == ("5", "NotOlderThan")
    assert (options.timeout_seconds, options.limit) == (30, 500)


@pytest.mark.parametrize(
    ("value", "watch"), [("1", True), ("true", True), ("", True), ("yes", True), ("0", False), ("false", False), ("False", False)]
)
def test_only_zero_and_false_are_false(value, watch):
    """Booleans of a query are read as upstream reads them."""
    assert metaoptions.decode_list_options({"watch": [value]}).watch is watch


PREFIX = 'ListOptions.meta.k8s.io "" is invalid: '


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("labelSelector=a b", 400, "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("fieldSelector=a", 400, "invalid selector: 'a'; can't understand 'a'"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("limit=99999999999999999999", 400, 'strconv.ParseInt: parsing "99999999999999999999": value out of range'),
        ("continue=x&resourceVersion=5", 400, "specifying resource version is not allowed when using continue"),
        (
            "resourceVersionMatch=Exact",
            422,
            PREFIX + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            PREFIX + 'resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            "resourceVersionMatch=Exact&resourceVersion=1&continue=x",
            422,
            PREFIX + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided",
        ),
        (
            "resourceVersionMatch=Near&resourceVersion=1",
            422,
            PREFIX + 'resourceVersionMatch: Unsupported value: "Near": supported values: "Exact", "NotOlderThan", ""',
        ),
        ("sendInitialEvents=true", 422, PREFIX + "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
        (
            "watch=1&sendInitialEvents=true",
            422,
            PREFIX + "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "watch=1&resourceVersionMatch=NotOlderThan",
            422,
            PREFIX + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
def test_list_options_that_are_refused(text, code, message):
    """The table of resourceVersion, resourceVersionMatch, continue and sendInitialEvents."""
    assert refused(metaoptions.decode_list_options, query(text)) == (code, message)


@pytest.mark.parametrize(
    "text", ["resourceVersion=0&limit=5", "continue=x&resourceVersion=0", "resourceVersion=0&resourceVersionMatch=NotOlderThan"]
)
def test_list_options_that_are_allowed(text):
    """Combinations that look forbidden and are not."""
    metaoptions.decode_list_options(query(text))


def test_resource_versions():
    """An unsigned 64 bit number, or a bad request."""
    assert metaoptions.parse_resource_version("") == 0
    assert metaoptions.parse_resource_version("18446744073709551615") == 2**64 - 1
    assert refused(metaoptions.parse_resource_version, "abc") == (
        400,
        'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax',
    )
    assert refused(metaoptions.parse_resource_version, "18446744073709551616")[1].endswith("value out of range")
    assert refused(metaoptions.parse_resource_version, "-1")[1].endswith("invalid syntax")


def test_write_options():
    """dryRun may be repeated, the field manager and validation are taken over."""
    options = metaoptions.decode_create_options(query("dryRun=All&dryRun=All&fieldManager=me&fieldValidation=Strict"))
    assert (options.dry_run, options.field_manager, options.field_validation) == (True, "me", "Strict")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dryRun=x", 'dryRun: Unsupported value: ["x"]: supported values: "All"'),
        ("fieldValidation=x", 'fieldValidation: Unsupported value: "x": supported values: "", "Ignore", "Strict", "Warn"'),
        ("fieldManager=" + "x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
        ("fieldManager=a\tb", 'fieldManager: Invalid value: "a\\tb": invalid character U+0009 (at position 1)'),
    ],
)
def test_write_options_that_are_refused(text, message):
    """Equal problems for create, update and patch, each under its own name."""
    for kind, decode in (("Create", metaoptions.decode_create_options), ("Update", metaoptions.decode_update_options)):
        assert refused(decode, query(text)) == (422, f'{kind}Options.meta.k8s.io "" is invalid: {message}')
    assert refused(metaoptions.decode_patch_options, query(text), apply=False)[1] == f'PatchOptions.meta.k8s.io "" is invalid: {message}'


def test_patch_options():
    """force belongs to apply, which needs a manager."""
    assert metaoptions.decode_patch_options(query("fieldManager=m&force=true"), apply=True).force is True
    assert refused(metaoptions.decode_patch_options, {}, apply=True) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    )
    assert refused(metaoptions.decode_patch_options, query("force=true"), apply=False) == (
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
    )


def test_delete_options_of_query_and_body():
    """Both forms give the same options; a negative grace period becomes one second."""
    of_query = metaoptions.decode_delete_options(query("gracePeriodSeconds=-5&propagationPolicy=Orphan&uid=u&resourceVersion=3&dryRun=All"))
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": -5,
        "propagationPolicy": "Orphan",
        "preconditions": {"uid": "u", "resourceVersion": "3"},
        "dryRun": ["All"],
    }
    assert of_query == metaoptions.decode_delete_options(query("propagationPolicy=Background"), body)
    assert of_query == DeleteOptions(True, 1, Preconditions("u", "3"), None, "Orphan")


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"propagationPolicy": "Orphan", "orphanDependents": False},
            422,
            (
                'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": '
                "orphanDependents and deletionPropagation cannot be both set"
            ),
        ),
        (
            {"propagationPolicy": "x"},
            422,
            (
                'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "x": '
                'supported values: "Foreground", "Background", "Orphan", "nil"'
            ),
        ),
        ({"kind": "Pod"}, 400, "decoded object cannot be converted to DeleteOptions"),
        ({"kind": {}}, 400, "json: cannot unmarshal object into Go struct field DeleteOptions.kind of type string"),
        (
            {"gracePeriodSeconds": "5"},
            400,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            {"preconditions": []},
            400,
            "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
        (
            {"preconditions": {"resourceVersion": 5}},
            400,
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.resourceVersion of type string",
        ),
        ({"dryRun": "All"}, 400, "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string"),
    ],
)
def test_delete_options_that_are_refused(body, code, message):
    """Wrong types are 400, wrong values 422."""
    assert refused(metaoptions.decode_delete_options, {}, body) == (code, message)


def test_include_object():
    """What Table rows carry."""
    assert metaoptions.decode_include_object({}) == "Metadata"
    assert metaoptions.decode_include_object(query("includeObject=None")) == "None"
    assert refused(metaoptions.decode_include_object, query("includeObject=x")) == (
        400,
        "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": must be 'Metadata', 'Object', 'None', or empty",
    )


@pytest.mark.parametrize(
    ("manager", "agent", "expected"),
    [
        ("me", "kubectl/v1", "me"),
        ("", "kubectl/v1.37 (linux)", "kubectl"),
        ("", "", ""),
        ("", "a\x01b/1", "ab"),
        ("", "x" * 200, "x" * 128),
        ("", "é" * 100, "é" * 64),
    ],
)
def test_manager_comes_from_the_user_agent(manager, agent, expected):
    """Without a field manager the User-Agent before the slash is it, printable and at most 128 bytes."""
    assert metaoptions.manager_or_user_agent(manager, agent) == expected


PARAMETERS = st.sampled_from(
    [
        "labelSelector",
        "fieldSelector",
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "sendInitialEvents",
        "timeoutSeconds",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
    ]
)
JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.lists(st.integers() | st.text(max_size=3))
    | st.dictionaries(st.sampled_from(["uid", "resourceVersion"]), st.integers() | st.text(max_size=3))
)


@given(st.dictionaries(PARAMETERS, st.lists(st.text(max_size=8), max_size=2)), st.dictionaries(PARAMETERS | st.just("preconditions"), JSON))
def test_any_query_is_decoded_or_refused(parameters: dict[str, Any], body: dict[str, Any]):
    """No query and no body raises anything but StatusError."""
    for decode in (
        lambda: metaoptions.decode_list_options(parameters),
        lambda: metaoptions.decode_create_options(parameters),
        lambda: metaoptions.decode_update_options(parameters),
        lambda: metaoptions.decode_patch_options(parameters, apply=True),
        lambda: metaoptions.decode_patch_options(parameters, apply=False),
        lambda: metaoptions.decode_delete_options(parameters),
        lambda: metaoptions.decode_delete_options(parameters, body),
    ):
        with contextlib.suppress(StatusError):
            decode()
