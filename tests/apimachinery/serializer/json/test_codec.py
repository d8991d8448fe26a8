"""JSON bodies: decoding, refusals, repeated keys."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.json import codec
from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH, DecodeError, Pairs, decode_json, duplicate_fields

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a":1,"a":2}', {"a": 2}),
        (
            b"[9223372036854775807,9223372036854775808,18446744073709551616,-9223372036854775809]",
            [9223372036854775807, 9223372036854775808.0, 18446744073709551616.0, -9223372036854775809.0],
        ),
        (b'"9223372036854775808999"', "9223372036854775808999"),
        (b" {}\n", {}),
    ],
)
def test_values(body, value):
    """Of repeated keys the last wins; ints beyond 64 bits are floats."""
    decoded = decode_json(body)
    assert decoded == value
    assert orjson.dumps(decoded) == orjson.dumps(value)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "unexpected end of JSON input"),
        (b"  \n", "unexpected end of JSON input"),
        (b'{"a":', "unexpected end of JSON input"),
        (b"[1", "unexpected end of JSON input"),
        (b"hello", "invalid character 'h' looking for beginning of value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a":1e999}', "number out of range"),
        (b'"\\ud800"', "invalid surrogate pair in string literal"),
        (b'"\xff"', "invalid UTF-8"),
        (b"\xed\xa0\x80", "invalid UTF-8"),
        (b"[" * 5000, f"exceeded max depth of {MAX_DEPTH}"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), f"exceeded max depth of {MAX_DEPTH}"),
        (b'{"a":' * (MAX_DEPTH + 1) + b"1" + b"}" * (MAX_DEPTH + 1), f"exceeded max depth of {MAX_DEPTH}"),
        (b"1" * 5000, "number out of range"),
    ],
    ids=lambda value: str(value[:20]),
)
def test_refusals(body, text):
    """Hostile and broken bodies get the short text of Go's decoder."""
    with pytest.raises(DecodeError) as caught:
        decode_json(body)
    assert str(caught.value) == text


def test_depth_limit_itself_is_allowed():
    """Exactly the allowed nesting, and many more brackets side by side."""
    decode_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    decode_json(b"[" + b",".join([b"[]"] * 10_000) + b"]")


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        (b'{"a":1,"b":[1,{"c":2}]}\n', []),
        (b'{ "a": 1, "b": 1.50 }', []),
        (b'{"spec":{"replicas":1,"replicas":2}}', ['duplicate field "spec.replicas"']),
        (b'{"a":[{"b":1,"b":2},{"b":1,"b":1}]}', ['duplicate field "a[0].b"', 'duplicate field "a[1].b"']),
        (b'{"a":{"x":1,"x":1},"a":{"x":1}}', ['duplicate field "a.x"', 'duplicate field "a"']),
        (b'{"a":1,"\\u0061":2}', ['duplicate field "a"']),
        (b'{"a":1,"a":2,"a":3}', ['duplicate field "a"']),
    ],
)
def test_duplicate_fields(body, errors):
    """Repeated keys are told once, with their path, in document order."""
    assert duplicate_fields(body) == errors


CHARACTERS = st.sampled_from('":,{}[]\\\\/ ab3\u2028\u00e9\U0001f600')
TEXTS = st.text(CHARACTERS, max_size=3)
MEMBERS = st.recursive(
    TEXTS | st.integers(-3, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(TEXTS, inner), max_size=4).map(Pairs),
    max_leaves=12,
)


def _spelled(text: str, random: Random, *, escapes: float) -> str:
    """A JSON string with some of its characters escaped."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1] if random.random() < 0.5 else json.dumps(text)[1:-1]
    form = random.choice(("\\u{:04x}", "\\u{:04X}"))
    return '"' + "".join(form.format(ord(one)) if one in ":,a{}" and random.random() < escapes else one for one in escaped) + '"'


def _written(node: Any, random: Random, *, space: str, escapes: float) -> str:
    """A document as a client may write it."""
    match node:
        case Pairs(pairs=pairs):
            members = [
                f"{_spelled(name, random, escapes=escapes)}{space}:{space}{_written(part, random, space=space, escapes=escapes)}"
                for name, part in pairs
            ]
            return "{" + f"{space},{space}".join(members) + space + "}"
        case list():
            return "[" + f",{space}".join(_written(part, random, space=space, escapes=escapes) for part in node) + "]"
        case str():
            return _spelled(node, random, escapes=escapes)
        case _:
            return json.dumps(node)


def _repeats(node: Any) -> bool:
    """Whether an object of a document has a key twice."""
    if isinstance(node, Pairs):
        return len(dict(node.pairs)) < len(node.pairs) or any(_repeats(part) for _, part in node.pairs)
    return isinstance(node, list) and any(map(_repeats, node))


@given(MEMBERS, st.randoms(use_true_random=False), st.sampled_from(["", " ", "\n\t"]), st.sampled_from([0.0, 0.2]))
def test_duplicate_fields_are_found_in_any_spelling(document, random, space, escapes):
    """Whatever the white space, the escapes and the colons in texts: a repeated key is reported, and nothing else is."""
    body = _written(document, random, space=space, escapes=escapes).encode()
    assert bool(duplicate_fields(body)) is _repeats(document)


@pytest.mark.parametrize("space", ["", " "])
def test_escaped_colons_do_not_hide_a_duplicate_field(space):
    """A document in which the escaped colon of a text stands for that of the lost member."""
    body = f'{{"a":{space}1,{space}"a":{space}"\\u003a"}}'.encode()
    assert duplicate_fields(body) == ['duplicate field "a"']


def test_duplicate_fields_are_limited():
    """At most a hundred are told."""
    body = "{" + ",".join(f'"k{number}":1,"k{number}":1' for number in range(500)) + "}"
    assert len(duplicate_fields(body.encode())) == codec.MAX_STRICT_ERRORS


@given(JSON)
def test_round_trip(value):
    """What orjson, the standard library or the pretty encoder writes is read again, without repeated keys."""
    for body in (orjson.dumps(value), json.dumps(value, indent=1).encode(), codec.encode_pretty(value)):
        assert decode_json(body) == value
        assert duplicate_fields(body) == []


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,01e-.\\u ntfals', max_size=60).map(str.encode))
def test_any_bytes_are_decoded_or_refused(body):
    """Nothing but DecodeError is raised."""
    try:
        value = decode_json(body)
    except DecodeError:
        return
    duplicate_fields(body, value)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (b'{"a":1.0}', b'{"a":1}'),
        (b'{"a":[1.0, -2.0,2.5]}', b'{"a":[1,-2,2.5]}'),
        (b'{"a":1.0\n}', b'{"a":1}'),
        (b"[1.0 ]", b"[1]"),
        (b'{"a":"1.0","b":"1.0, 2.0"}', b'{"a":"1.0","b":"1.0, 2.0"}'),
        (b'{"a":1.00}', b'{"a":1}'),
        (b'{"a":1.0\t}', b'{"a":1}'),
        (b'{"a":1e3}', b'{"a":1000}'),
        (b'{"a": 1E2, "b":[1e0,2E+1,-3e2]}', b'{"a":100,"b":[1,20,-300]}'),
        (b"[ 1.5e1 ,\t15e-1,150e-1]", b"[15,1.5,15]"),
        (b'{"a":-0.0,"b":-0e0}', b'{"a":0,"b":0}'),
        (b'{"a":1' + 30 * b"0" + b"e-20}", b'{"a":10000000000}'),
        (b'{"uid":"6e1b3c0e-3e4f-4e+3","a":1.5}', b'{"uid":"6e1b3c0e-3e4f-4e+3","a":1.5}'),
        (b'{"a":10000000000000000.1,"b":1.00000000000000000001}', b'{"a":10000000000000000,"b":1}'),
        (b'{"a":"1e3: 1e3"}', b'{"a":"1e3: 1e3"}'),
        (b'{"a":-9223372036854775808.0}', b'{"a":-9223372036854775808}'),
        (b'{"a":9223372036854775808.0}', b'{"a":9.223372036854776e+18}'),
    ],
)
def test_doubles_without_fraction_are_written_as_integers(body: bytes, written: bytes) -> None:
    """As Go writes them: typed clients refuse 1.0 where an integer is due."""
    assert orjson.dumps(decode_json(body)) == written


@given(
    st.lists(
        st.tuples(
            st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?", fullmatch=True, alphabet="0123456789.eE+-"),
            st.sampled_from(["", " ", "\n", "\t", "\r\n"]),
        ),
        min_size=1,
    )
)
def test_no_whole_double_is_overlooked(numbers: list[tuple[str, str]]) -> None:
    """However a number is written and whatever stands around it: what fits into 64 bits and has no fraction is an int."""
    body = f"[{','.join(f'{space}{number}{space}' for number, space in numbers)}]".encode()
    for value, (number, _) in zip(decode_json(body), numbers, strict=True):
        exact = float(number)
        whole = exact.is_integer() and -(2**63) <= exact < 2**63
        assert type(value) is (int if whole else float)
        assert float(value) == exact


def _in_every_way(body: bytes) -> tuple[bytes, list[str]]:
    value, repeated = codec.decode_json_strict(body)
    assert repeated == duplicate_fields(body)
    assert orjson.dumps(value) == orjson.dumps(decode_json(body))
    return orjson.dumps(value), repeated


NUMBERS = (
    st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**64), 2**64).map(float)
    | st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 1e15, 1e16, -1e17, 9.2e18, 9.3e18, 1e22, -0.0, 0.5, 1e-7, 1e-16, 11111111111111111111])
)


@given(
    st.recursive(
        NUMBERS | st.text(alphabet='.0e19,}]":+- ', max_size=30),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='.0e,"', max_size=5), inner, max_size=4),
        max_leaves=20,
    ),
    st.sampled_from(["", "\n", " \r\n"]),
)
def test_numbers_of_bodies_as_orjson_writes_them(document: Any, end: str) -> None:
    """The short cut for bodies in the form of orjson decodes numbers as the way for all bodies does."""
    for part in (document, {"a": document}, {"a": [document, 1]}):
        _in_every_way(orjson.dumps(part) + end.encode())


@pytest.mark.parametrize(
    ("body", "written", "repeated"),
    [
        (b'{"a":1.0}', b'{"a":1}', []),
        (b'{"a":[2.0,1]}', b'{"a":[2,1]}', []),
        (b'{"a":1e+16}', b'{"a":10000000000000000}', []),
        (b'{"a":-1.5e+18,"b":1}', b'{"a":-1500000000000000000,"b":1}', []),
        (b'{"a":1e+22}', b'{"a":1e+22}', []),
        (b'{"a":-0.0}', b'{"a":0}', []),
        (b'{"a":9223372036854775807}', b'{"a":9223372036854775807}', []),
        (b'{"a":9223372036854775808}', b'{"a":9.223372036854776e+18}', []),
        (b'{"a":18446744073709551615}', b'{"a":1.8446744073709552e+19}', []),
        (b'{"a":1,"a":1}', b'{"a":1}', ['duplicate field "a"']),
        (b'{"a":{"b":1},"a":{"b":1}}\n', b'{"a":{"b":1}}', ['duplicate field "a"']),
        (b'{"a":"1.0, 1e+16, 9223372036854775808"}', b'{"a":"1.0, 1e+16, 9223372036854775808"}', []),
    ],
)
def test_bodies_as_orjson_writes_them(body: bytes, written: bytes, repeated: list[str]) -> None:
    """Nothing that the decoder changes or reports is taken for plain."""
    assert _in_every_way(body) == (written, repeated)


@pytest.mark.parametrize("opening", ['{"a":', "["])
def test_depth_limit_of_bodies_as_orjson_writes_them(opening: str) -> None:
    """The short cut allows the depth that is allowed, and not a level more."""
    closing = {'{"a":': "}", "[": "]"}[opening]
    allowed, deeper = (('{"a":' + opening * depth + "1" + closing * depth + "}").encode() for depth in (MAX_DEPTH - 1, MAX_DEPTH))
    assert _in_every_way(allowed) == (allowed, [])
    with pytest.raises(DecodeError, match="exceeded max depth"):
        codec.decode_json_strict(deeper)
