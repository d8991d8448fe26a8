"""JSON to decoded objects and back.

Decoded objects are plain dicts, lists, strings, booleans, None, ints within 64 bits and floats. Hostile input is refused: NaN,
infinities, lone surrogates, bytes that are not UTF-8, and nesting deeper than `MAX_DEPTH`, so that everything after the decoder may
recurse.

Source: sigs.k8s.io/json and sigs.k8s.io/yaml as used by apimachinery `pkg/runtime/serializer/json`.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from kcp_py.apimachinery.serializer.decoding import MAX_DEPTH, MAX_STRICT_ERRORS, DecodeError, too_deep

if TYPE_CHECKING:
    from kcp_py.apimachinery.serializer.json import pieces as json_pieces

__all__ = [
    "MAX_DEPTH",
    "MAX_STRICT_ERRORS",
    "DecodeError",
    "Pairs",
    "decode_json",
    "decode_json_strict",
    "decode_pairs",
    "duplicate_fields",
    "encode_pretty",
    "sorted_pairs",
    "too_deep",
]

_IN_PIECES_BYTES: Final = 256 * 1024
"""Documents above this size are decoded in pieces."""
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1
_SUMMARY: Final = bytes.maketrans(b"0123456789[E", b"0000000000{e")
"""Makes nesting, long numbers and exponents in a body findable by one fast search each."""
_EIGHT_DIGITS: Final = b"0" * 8
"""Stand in each number that may need any of the next three."""
_NINETEEN_DIGITS: Final = b"0" * 19
_ZERO_FRACTION: Final = re.compile(rb"\.0+[,}\]\s]")
"""How a double without a fraction ends, as other languages write it."""
_TRAILING_DIGITS: Final = b".00000000"
_LEADING_DIGITS: Final = b"00000000."
"""A fraction that is rounded away has sixteen digits before it or in it: a double has no more."""
_EXPONENT: Final = re.compile(rb"0e[+-]?0+(?:[,}\]\s]|$)")
"""How a number with an exponent ends. Texts end so only before a character of theirs that ends numbers; UIDs never do."""
_MARKS: Final = bytes.maketrans(b"0123456789[}]", b"0000000000{,,")
_UNMARKED: Final = bytes(set(range(256)).difference(b'0123456789[]{},.e"'))
"""Characters that tell nothing of the nesting and the doubles of a document. Without them few remain."""


def decode_json(body: bytes) -> Any:
    """Decode JSON; ints beyond 64 bits become floats, floats such as 1.0 and 1e3 become ints, of repeated keys the last wins.

    Go writes a double without a fraction as an integer, and its typed clients refuse anything else in an integer's place.

    Raises:
        DecodeError: not JSON, or nested too deeply.
    """
    if len(body) > _IN_PIECES_BYTES:
        return _decode_in_pieces(body, None)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise DecodeError(_go_text(body, error)) from None
    return _checked(body, value, MAX_DEPTH)


def decode_json_strict(body: bytes) -> tuple[Any, list[str]]:
    """Decode JSON like `decode_json`, and return the repeated keys with it, such as `duplicate field "spec.replicas"`, in document order.

    Raises:
        DecodeError: not JSON, or nested too deeply.
    """
    if len(body) > _IN_PIECES_BYTES:
        errors: dict[str, None] = {}
        value = _decode_in_pieces(body, errors)
        return value, list(errors)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise DecodeError(_go_text(body, error)) from None
    if type(value) is dict and _is_plain(body, value):
        return value, []
    value = _checked(body, value, MAX_DEPTH)
    return value, [] if _has_no_duplicates(body, value) else _duplicate_fields(body)


def _is_plain(body: bytes, value: dict[str, Any]) -> bool:
    """Whether an object is written as orjson writes it, repeats no key, and is left as it is by `_checked`. False says nothing.

    In that form doubles without a fraction end in `.0` or in an exponent of two digits, and a comma, a bracket or a brace is next to each
    number.
    """
    marks = body.translate(_MARKS, _UNMARKED)
    if b"e00," in marks or (b".0," in marks and _ZERO_FRACTION.search(body) is not None) or marks.count(b"{") > MAX_DEPTH:
        return False
    try:
        return body.startswith(orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER))  # else only space follows
    except orjson.JSONEncodeError:  # an int of more than 53 bits
        return False


def _decode_in_pieces(body: bytes, errors: dict[str, None] | None) -> Any:
    from kcp_py.apimachinery.serializer.json import pieces as json_pieces  # noqa: PLC0415  # large bodies are rare

    def visit(frame: json_pieces.Frame, text: bytes, value: Any) -> Any:
        value = _checked(text, value, MAX_DEPTH - frame.depth)
        if errors is not None and len(errors) < MAX_STRICT_ERRORS:
            _find_duplicates(text, value, frame, errors)
        return value

    def visit_member(frame: json_pieces.Frame, name: str) -> None:
        if frame.depth >= MAX_DEPTH:
            raise DecodeError(f"exceeded max depth of {MAX_DEPTH}")
        if errors is not None and name in frame.container and len(errors) < MAX_STRICT_ERRORS:
            errors[f'duplicate field "{f"{frame.path}.{name}" if frame.path else name}"'] = None

    try:
        return json_pieces.decode(body, visit, visit_member)
    except json_pieces.MalformedError as error:
        raise DecodeError(_go_text(error.text, error.error)) from None


def _find_duplicates(text: bytes, value: Any, frame: json_pieces.Frame, errors: dict[str, None]) -> None:
    """Take note of the keys that are repeated in a piece, or stand in the pieces before it."""
    container = frame.container
    new = type(container) is not dict or container.keys().isdisjoint(value)
    if new and _has_no_duplicates(text, value):
        return
    document, found = _pairs_of(text)
    if found or not new:
        _collect_duplicates(document, frame.path, errors, seen=container)


def _checked(body: bytes, value: Any, depth: int) -> Any:
    """What `decode_json` makes of what its decoder made of a document.

    Raises:
        DecodeError: nested too deeply.
    """
    summary = body.translate(_SUMMARY)
    if summary.count(b"{") > depth and too_deep(value, depth):
        raise DecodeError(f"exceeded max depth of {MAX_DEPTH}")
    long = _EIGHT_DIGITS in summary
    # orjson keeps ints up to 2^64-1; a number that large has nineteen digits in a row.
    if long and _NINETEEN_DIGITS in summary:
        value = _shrink(value)
    if (
        _ZERO_FRACTION.search(body) is not None
        or (b"0e" in summary and _EXPONENT.search(summary) is not None)
        or (long and (_TRAILING_DIGITS in summary or _LEADING_DIGITS in summary))
    ):
        return _without_fractions(value)
    return value


def duplicate_fields(body: bytes, value: Any = None) -> list[str]:
    """The repeated keys of a JSON body that `decode_json` has accepted, such as `duplicate field "spec.replicas"`, in document order.

    Args:
        body: The JSON text.
        value: What `decode_json` made of it, if at hand: spares decoding again.
    """
    if len(body) > _IN_PIECES_BYTES:
        return decode_json_strict(body)[1]
    if value is None:
        value = decode_json(body)
    return [] if _has_no_duplicates(body, value) else _duplicate_fields(body)


def _duplicate_fields(body: bytes) -> list[str]:
    document, found = _pairs_of(body)
    if not found:
        return []
    errors: dict[str, None] = {}
    _collect_duplicates(document, "", errors)
    return list(errors)


def _has_no_duplicates(body: bytes, value: Any) -> bool:
    """Whether no key of a document is repeated, as far as counting can tell; False where it cannot.

    Most bodies are written as they would be written here. In others each member of an object has a colon behind its key, and a decoder that
    drops a member drops its colon. Other colons are in texts. They are written as such, unless a client escapes them.

    Args:
        body: the JSON text.
        value: the decoded document.
    """
    written = orjson.dumps(value)
    if body.startswith(written):  # else only space follows
        return True
    return written.count(b":") == body.count(b":") and b"\\u003a" not in body and b"\\u003A" not in body


def _pairs_of(body: bytes) -> tuple[Any, bool]:
    """A document with the members of its objects as they are written, and whether any of them is repeated."""
    found = False

    def pairs_of(pairs: list[tuple[str, Any]]) -> Pairs:
        nonlocal found
        found = found or len(dict(pairs)) != len(pairs)
        return Pairs(pairs)

    return json.loads(body, object_pairs_hook=pairs_of, parse_constant=str, parse_int=str, parse_float=str), found


def decode_pairs(body: bytes) -> Any:
    """A JSON body that `decode_json` has accepted, its objects as `Pairs`; numbers are texts."""
    if len(body) > _IN_PIECES_BYTES:
        from kcp_py.apimachinery.serializer.json import pieces as json_pieces  # noqa: PLC0415  # large bodies are rare

        return json_pieces.decode(body, lambda _, text, __: _pairs_of(text)[0], lambda _, __: None, new_object=lambda: Pairs([]))
    return json.loads(body, object_pairs_hook=Pairs, parse_constant=str, parse_int=str, parse_float=str)


def sorted_pairs(value: Any) -> Any:
    """A decoded value with its objects as `Pairs`, sorted by key, as Go writes them on the way from YAML to JSON."""
    if isinstance(value, dict):
        return Pairs([(name, sorted_pairs(part)) for name, part in sorted(value.items())])
    return [sorted_pairs(part) for part in value] if isinstance(value, list) else value


def encode_pretty(obj: Any) -> bytes:
    """JSON for people (`?pretty=true`, curl, browsers): indented by two spaces."""
    return orjson.dumps(obj, option=orjson.OPT_INDENT_2)


class Pairs:
    """A JSON object with its keys as written: in order, and as often as they are there."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs

    def __setitem__(self, key: str, value: Any) -> None:
        self.pairs.append((key, value))

    def update(self, other: Pairs) -> None:
        """Go on with the members of another piece of the object."""
        self.pairs += other.pairs


def _collect_duplicates(node: Any, path: str, errors: dict[str, None], *, seen: Any = None) -> None:
    """Take note of repeated keys.

    Args:
        node: a document.
        path: where it is in another one.
        errors: the errors found so far, to which new ones are added.
        seen: the object or list that it goes on.
    """
    if len(errors) >= MAX_STRICT_ERRORS:
        return
    if isinstance(node, Pairs):
        names = set(seen or ())
        for key, value in node.pairs:
            here = f"{path}.{key}" if path else key
            if key in names and len(errors) < MAX_STRICT_ERRORS:
                errors[f'duplicate field "{here}"'] = None
            names.add(key)
            if isinstance(value, Pairs | list):
                _collect_duplicates(value, here, errors)
    else:
        for index, item in enumerate(node, len(seen or ())):
            if isinstance(item, Pairs | list):
                _collect_duplicates(item, f"{path}[{index}]", errors)


def _shrink(value: Any) -> Any:
    """Turn ints beyond int64 into floats."""
    kind = type(value)
    if kind is dict:
        return {key: _shrink(item) for key, item in value.items()}
    if kind is list:
        return [_shrink(item) for item in value]
    return float(value) if kind is int and value > _INT64_MAX else value


def _without_fractions(value: Any) -> Any:
    """Turn floats that are whole and within 64 bits into ints."""
    kind = type(value)
    if kind is dict:
        return {key: _without_fractions(item) for key, item in value.items()}
    if kind is list:
        return [_without_fractions(item) for item in value]
    return int(value) if kind is float and value.is_integer() and _INT64_MIN <= value <= _INT64_MAX else value


def _go_text(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip(b" \t\r\n"):
        return "unexpected end of JSON input"
    text = str(error)
    if "UTF-8" in text:
        return "invalid UTF-8"
    if "depth limit" in text:
        return f"exceeded max depth of {MAX_DEPTH}"
    if "infinity" in text:
        return "number out of range"
    if "surrogate" in text:
        return "invalid surrogate pair in string literal"
    position = error.pos
    document = body.decode("utf-8", "replace")
    if position >= len(document.rstrip(" \t\r\n")) or "end of data" in text:
        return "unexpected end of JSON input"
    character = document[position]
    shown = "'\\''" if character == "'" else f"'{character}'" if character.isprintable() else repr(character)
    if "after document" in text:
        return f"invalid character {shown} after top-level value"
    where = "looking for beginning of object key string" if "key" in text else "looking for beginning of value"
    return f"invalid character {shown} {where}"
