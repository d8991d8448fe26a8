"""YAML bodies, as go-yaml v2 and sigs.k8s.io/yaml read them."""

from __future__ import annotations

import gzip

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.json.codec import DecodeError, decode_json
from kcp_py.apimachinery.serializer.yaml import decoding as yaml_decoding
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml, decode_yaml_strict, encode_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", True),
        ("y", True),
        ("No", False),
        ("off", False),
        ("nO", "nO"),
        ("~", None),
        ("", None),
        ("null", None),
        ("012", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("-0x1F", -31),
        ("0b101", 5),
        ("-0b11", -3),
        ("1_000", 1000),
        ("08", 8),
        ("0x_f", 15),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5),
        ("1e400", "1e400"),
        ("0x", "0x"),
        ("0x1p3", "0x1p3"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("2001-01-01T00:00:00Z", "2001-01-01T00:00:00Z"),
        ("=", "="),
        ("18446744073709551615", 18446744073709551615.0),
        ("99999999999999999999", 1e20),
        ("-9223372036854775808", -(2**63)),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("!!int '5'", 5),
        ("!!float 3", 3),
        ("!!binary aGVsbG8=", "hello"),
        ("!custom 5", "5"),
        ("!!timestamp 2001-01-01", "2001-01-01"),
        ("! 5", "5"),
        ("'<<'", "<<"),
        ("٣", "٣"),
    ],
)
def test_scalars(text, value):
    """Plain scalars have the types that go-yaml v2 gives them."""
    decoded = decode_yaml(f"- {text}\n".encode())[0]
    assert orjson.dumps(decoded) == orjson.dumps(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true: 1\n3: 2\n1.5: 3\n0x10: 4", {"true": 1, "3": 2, "1.5": 3, "16": 4}),
        ("1000000.0: a", {"1e+06": "a"}),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
        ("p: &x {a: 1, b: 2}\nq: &y {a: 3}\nz:\n  <<: [*x, *y]\n  b: 4", {"p": {"a": 1, "b": 2}, "q": {"a": 3}, "z": {"a": 1, "b": 4}}),
        ("a: |\n  x\n  y\nb: >\n  x\n  y\n", {"a": "x\ny\n", "b": "x y\n"}),
        ("---\na: 1\n---\n", {"a": 1}),
        ("# nothing", None),
    ],
)
def test_documents(text, value):
    """Keys become strings, anchors and merge keys are expanded, an empty second document does not count."""
    assert decode_yaml(text.encode()) == value


def test_expanded_aliases_are_not_shared():
    """Changing one place of an expanded alias leaves the others alone."""
    decoded = decode_yaml(b"a: &x {b: [1]}\nc: *x")
    decoded["a"]["b"].append(2)
    assert decoded["c"] == {"b": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: 1\nb: c: d", "yaml: line 2: mapping values are not allowed in this context"),
        ("null: 1", "unsupported map key of type: %!s(<nil>)"),
        ("? [a]\n: b", "yaml: invalid map key: []interface {}"),
        ("a: *y", "yaml: unknown anchor 'y' referenced"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
        ("[.nan]", "json: unsupported value: NaN"),
        ("-.inf", "json: unsupported value: -Inf"),
        ("<<: 5", "yaml: map merge requires map or sequence of maps as the value"),
        ("a: 1\n---\nb: 2", "yaml: expected a single document in the stream"),
        ("a: !!binary x", "yaml: !!binary value contains invalid base64 data"),
        ("\0", "yaml: control characters are not allowed"),
        ("[" * 200, "yaml: exceeded max depth"),
        ("&a [" * 3, "yaml: "),
    ],
)
def test_refusals(text, problem):
    """Errors have go-yaml's text."""
    with pytest.raises(DecodeError) as caught:
        decode_yaml(text.encode())
    assert str(caught.value).startswith(problem)


def test_bombs_are_stopped():
    """Aliases that multiply, and aliases that nest, are refused before they are expanded."""
    multiplying = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 9)
    )
    with pytest.raises(DecodeError, match="excessive aliasing"):
        decode_yaml(multiplying.encode())
    nesting = "a0: &a0 [x]\n" + "".join(f"a{level}: &a{level} [*a{level - 1}]\n" for level in range(1, 300))
    with pytest.raises(DecodeError, match="exceeded max depth"):
        decode_yaml(nesting.encode())
    with pytest.raises(DecodeError, match="nodes"):
        decode_yaml(b"[a" + b",a" * yaml_decoding.MAX_NODES + b"]")


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("a: 1\nb: 2", []),
        (
            "a: 1\na: 2\nb:\n  c: 1\n  c: 2\n",
            ['yaml: unmarshal errors:\n  line 2: key "a" already set in map\n  line 5: key "c" already set in map'],
        ),
        ("1: a\n1: b", ["yaml: unmarshal errors:\n  line 2: key 1 already set in map"]),
    ],
)
def test_strict_errors(text, errors):
    """Repeated keys are one error with all lines; the last value is taken."""
    assert decode_yaml_strict(text.encode())[1] == errors


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(max_size=10)
    | st.text(alphabet="yn01e.:-_#'\"{}[]\n \t=<~&*!|>%@`", max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=15,
)


@given(JSON)
def test_what_is_written_is_read(value):
    """Encoding and decoding gives the same value, whole floats being ints."""
    assert decode_yaml(encode_yaml(value)) == value


NEXT_LINE = "\x85".encode()


@given(JSON.map(orjson.dumps).filter(lambda body: NEXT_LINE not in body))
def test_json_is_yaml(body):
    """JSON means the same to both decoders, unless libyaml cannot read it; only a next line (U+0085) is a line break to YAML alone."""
    try:
        decoded = decode_yaml(body)
    except DecodeError:
        return
    assert decoded == decode_json(body)


@given(st.binary(max_size=60) | st.text(alphabet="abn01:-?&*!<>|[]{},'\"#%\n \t.~=", max_size=60).map(str.encode))
def test_any_bytes_are_decoded_or_refused(body):
    """Only DecodeError is raised, and decoded values can be stored."""
    try:
        value, _ = decode_yaml_strict(body)
    except DecodeError:
        return
    orjson.dumps(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"b": [1, {"x": []}], "a10": "y", "a9": {}, "aB": None, "c": "x\ny", "d": "2026-01-01T00:00:00Z", "n": "1:30", "e": 1000000.5},
            'a9: {}\na10: "y"\naB: null\nb:\n- 1\n- x: []\nc: |-\n  x\n  y\nd: "2026-01-01T00:00:00Z"\ne: 1.0000005e+06\n"n": "1:30"\n',
        ),
        ([], "[]\n"),
        ("", '""\n'),
    ],
)
def test_encoding(value, text):
    """Natural key order, literal blocks, quotes where go-yaml would read something else."""
    assert encode_yaml(value).decode() == text


def test_public_crds_survive(corpus_tables):
    """Large real CRDs are within the budgets and come back from YAML unchanged."""
    files = sorted(corpus_tables.parent.glob("crds-huge/*.yaml.gz"))[::12]
    assert files
    for file in files:
        value = decode_yaml(gzip.decompress(file.read_bytes()))
        assert decode_yaml(encode_yaml(value)) == value
