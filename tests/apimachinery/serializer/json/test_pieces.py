"""Large JSON documents, decoded in pieces as they would be in one."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.json.codec import DecodeError, Pairs, decode_json, decode_json_strict, decode_pairs
from kcp_py.apimachinery.serializer.json.pieces import Frame, MalformedError, decode

TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(['a"\\\n[{,}]', "", "\\", '"', "é" * 20]))
DOCUMENTS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=8), st.dictionaries(TEXTS, inner, max_size=8)),
    max_leaves=60,
)


def as_it_is(frame: Frame, text: bytes, value: Any) -> Any:
    del frame, text
    return value


def nothing(frame: Frame, name: str) -> None:
    """Ignore a member."""


@given(document=DOCUMENTS, indent=st.sampled_from([None, 1]), piece=st.sampled_from([2, 16, 64]))
def test_pieces_make_the_same_document(document: Any, indent: int | None, piece: int) -> None:
    """Wherever a document is cut, what comes out is what the decoder makes of all of it, in the same order."""
    body = json.dumps([document], indent=indent).encode()
    assert orjson.dumps(decode(body, as_it_is, nothing, piece=piece)) == orjson.dumps(orjson.loads(body))


@given(document=DOCUMENTS, data=st.data(), piece=st.sampled_from([2, 16, 64]))
def test_faults_are_found(document: Any, data: st.DataObject, piece: int) -> None:
    """A document with a changed, missing or last byte is refused exactly if the decoder refuses all of it."""
    body = json.dumps([document]).encode()
    at = data.draw(st.integers(0, len(body) - 1))
    new = data.draw(st.sampled_from([b"", *(bytes([byte]) for byte in b'{}[],:"\\ x1-')]))
    body = body[:at] + new + data.draw(st.sampled_from([body[at + 1 :], b""]))
    try:
        expected: bytes | None = orjson.dumps(orjson.loads(body))
    except orjson.JSONDecodeError:
        expected = None
    if expected is None:
        with pytest.raises(MalformedError):
            decode(body, as_it_is, nothing, piece=piece)
    else:
        assert orjson.dumps(decode(body, as_it_is, nothing, piece=piece)) == expected


def test_pieces_are_small() -> None:
    """Of a document of many small values, no piece is much larger than asked for."""
    body = orjson.dumps({"data": {f"k{number}": [number] for number in range(20_000)}})
    sizes: list[int] = []

    def visit(frame: Frame, text: bytes, value: Any) -> Any:
        del frame
        sizes.append(len(text))
        return value

    assert decode(body, visit, nothing, piece=1000) == orjson.loads(body)
    assert max(sizes) < 3000


FILLER = ",".join(f'"k{number}":"some value"' for number in range(20_000))


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        ("{%s}", []),
        ('{%s,"k7":1}', ['duplicate field "k7"']),
        ('{"spec":[{},{%s,"k7":1,"k7":2}],"z":1, "z":2}', ['duplicate field "spec[1].k7"', 'duplicate field "z"']),
        ('{"a":{%s},"a":1}', ['duplicate field "a"']),
        ('{"a":1,"a":{%s}}', ['duplicate field "a"']),
        ('{"a":[{%s},{"b":1,"b":2}]}', ['duplicate field "a[1].b"']),
    ],
)
def test_repeated_keys_in_large_documents(document: str, errors: list[str]) -> None:
    """Keys are found to be repeated within a piece and across pieces, by their paths and in the order of the document; the last wins."""
    body = (document % FILLER).encode()
    value, found = decode_json_strict(body)
    assert found == errors
    assert value == json.loads(body)


@pytest.mark.parametrize("end", ["}", "}} 1", ",}}", "}]", ',"x"}}', ',"x":1 2}}', "},}", "}x}"])
def test_faults_of_large_documents(end: str) -> None:
    """Errors have the same words as those of small bodies."""
    said = []
    for members in ('"k":"v"', FILLER):
        with pytest.raises(DecodeError) as caught:
            decode_json(f'{{"data":{{{members}{end}'.encode())
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_large_documents_that_are_deep() -> None:
    """The limit of nesting holds across pieces."""
    for depth in (200, 2000):
        body = b'{"a":' * depth + b"[" + b"1," * 200_000 + b"1]" + b"}" * depth
        with pytest.raises(DecodeError, match="exceeded max depth"):
            decode_json(body)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_millions_of_levels_are_refused_early(opening: bytes) -> None:
    """A document that only opens lists and objects is refused at the limit, without keeping what it opened."""
    body = opening * (2_000_000 // len(opening))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="exceeded max depth"):
            decode_json(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_long_names_are_not_multiplied_by_depth() -> None:
    """The path of a member is only joined where an error shows it."""
    body = b'{"' + b"n" * 1_000_000 + b'":' + b'{"a":' * 100 + b"[" + b"1," * 200_000 + b"1]" + b"}" * 101
    tracemalloc.start()
    try:
        decode_json_strict(body)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


def test_numbers_in_large_documents() -> None:
    """Whole doubles become integers, and integers beyond 64 bits doubles, in every piece."""
    body = b"[" + b"1.0," * 100_000 + b"18446744073709551615]"
    value = decode_json(body)
    assert {type(number) for number in value[:-1]} == {int}
    assert type(value[-1]) is float


def test_pairs_of_large_documents() -> None:
    """Every member of an object is there as it was written, those of objects within large ones, too."""

    def plain(value: Any) -> Any:
        if isinstance(value, Pairs):
            return [(key, plain(part)) for key, part in value.pairs]
        return list(map(plain, value)) if isinstance(value, list) else value

    body = ('{"a":[{"b":1,"b":2},{' + FILLER + ',"k7":3}],"a":4}').encode()
    expected = json.loads(body, object_pairs_hook=lambda pairs: pairs, parse_int=str)
    assert plain(decode_pairs(body)) == expected
