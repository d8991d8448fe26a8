"""How inputs are made: by bytes, by words of a grammar, by the nodes of a JSON document, by the fields of a protobuf message.

Every function asks one `Random` for all that it leaves to chance, so that an input can be made again from a number, and so that
hypothesis, which can stand in for it, can make a failing input smaller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

MAX_BYTES = 8192
"""Inputs are not made larger than that: what grows with the size is found by the calls that it costs."""

TEXTS = (
    "",
    " ",
    "\x00",
    "\n",
    "\r\n",
    "\t",
    "/",
    "..",
    "%",
    "%2e",
    "%00",
    "\\",
    '"',
    "'",
    "`",
    ",",
    ";",
    ":",
    "=",
    "!=",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "*",
    "?",
    "#",
    "&",
    "+",
    "-",
    "0",
    "-1",
    "1e9",
    "1e999999",
    "9223372036854775808",
    "18446744073709551616",
    "0x10",
    "NaN",
    "Infinity",
    "null",
    "true",
    "é",
    "\u202e",
    "\ufeff",
    "\uffff",
    "\U0001f600",
    "\u0130",
    "\u017f",
    "\u212a",
    "A" * 300,
    "a." * 150,
    "(" * 150,
    "[" * 150,
)
"""Words that parsers have stumbled over."""

VALUES = (
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "1e2",
    "1E400",
    "1e999999",
    "-1e-999999",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551616",
    "1" + "0" * 400,
    "0.1" + "0" * 400,
    "NaN",
    "Infinity",
    "01",
    "0x1",
    '""',
    '"a"',
    '"\\u0000"',
    '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"',
    '"\u2028"',
    '"' + "x" * 300 + '"',
    '"1Gi"',
    '"-"',
    '"2024-01-01T00:00:00Z"',
    '"9999-12-31T23:59:60Z"',
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '[""]',
    "[{}]",
    '{"":null}',
    '{"a":1,"a":2}',
    '{"a":{"b":[{}]}}',
    "[" * 140 + "]" * 140,
    '{"a":' * 140 + "1" + "}" * 140,
    "[" * 2000,
    "",
)
"""JSON, and what some take for it, to be put in the place of any node."""

_WORDS = re.compile(rb"\w+|\s+|.", re.DOTALL)


def mutated_bytes(random: Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """A seed with a few bytes or runs of bytes changed."""
    data = bytearray(random.choice(seeds))
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(data))
        match random.randint(0, 6):
            case 0 if data:
                data[at % len(data)] ^= 1 << random.randint(0, 7)
            case 1:
                del data[at : at + random.randint(1, 16)]
            case 2:
                data[at:at] = data[at : at + random.randint(1, 32)] * random.choice((1, 2, 40))
            case 3:
                data[at:at] = bytes(random.randint(0, 255) for _ in range(random.randint(1, 4)))
            case 4:
                data[at:at] = random.choice(tokens) if tokens else random.choice(TEXTS).encode()
            case 5:
                del data[at:]
            case _:
                other = random.choice(seeds)
                data[at:] = other[random.randint(0, len(other)) :]
    return bytes(data[:MAX_BYTES])


def mutated_text(random: Random, seeds: Sequence[str], words: Sequence[str] = ()) -> bytes:
    """A seed with some of its words left out, repeated, exchanged, or replaced by other words of the grammar."""
    found = _WORDS.findall(random.choice(seeds).encode())
    for _ in range(random.randint(1, 4)):
        at = random.randint(0, len(found))
        match random.randint(0, 5):
            case 0:
                del found[at : at + random.randint(1, 3)]
            case 1:
                found[at:at] = found[at : at + random.randint(1, 6)] * random.choice((1, 2, 60))
            case 2:
                found.insert(at, random.choice(words or TEXTS).encode())
            case 3:
                found.insert(at, random.choice(TEXTS).encode())
            case 4 if found:
                other = random.randint(0, len(found) - 1)
                at %= len(found)
                found[at], found[other] = found[other], found[at]
            case _:
                rest = _WORDS.findall(random.choice(seeds).encode())
                found[at:] = rest[random.randint(0, len(rest)) :]
    return b"".join(found)[:MAX_BYTES]


class Written:
    """Text that goes into a document as it is."""

    def __init__(self, text: str) -> None:
        self.text = text


def mutated_document(random: Random, document: Any, values: Sequence[str] = VALUES) -> Any:
    """A copy of a decoded document with some of its nodes changed; it is written by `written`."""
    root: list[Any] = [_copy(document)]
    for _ in range(random.randint(1, 4)):
        places = list(_places(root))
        container, at = random.choice(places)
        match random.randint(0, 6):
            case 0 | 1:
                container[at] = Written(random.choice(values))
            case 2 if container is not root:
                del container[at]
            case 3:
                container[at] = [container[at]] * random.choice((1, 2, 50))
            case 4:
                container[at] = {random.choice(TEXTS) or "a": container[at], "a": 1}
            case 5 if isinstance(container, dict):
                container[random.choice(TEXTS)] = container.pop(at)
            case _:
                other, there = random.choice(places)
                if there in other if isinstance(other, dict) else there < len(other):
                    container[at] = _copy(other[there])
    return root[0]


def mutated_json(random: Random, documents: Sequence[Any], values: Sequence[str] = VALUES) -> bytes:
    """A document changed by its nodes, and now and then by its bytes."""
    data = written(mutated_document(random, random.choice(documents), values)).encode("utf-8", "surrogatepass")[:MAX_BYTES]
    return mutated_bytes(random, [data]) if random.randint(0, 9) == 0 else data


def written(document: Any) -> str:
    """JSON of a changed document."""
    if isinstance(document, Written):
        return document.text
    if isinstance(document, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{written(value)}" for name, value in document.items()) + "}"
    if isinstance(document, list):
        return "[" + ",".join(map(written, document)) + "]"
    return json.dumps(document)


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _places(root: list[Any]) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    while waiting and len(places) < 500:
        container = waiting.pop()
        for at, value in container.items() if isinstance(container, dict) else enumerate(container):
            places.append((container, at))
            if isinstance(value, dict | list) and value:
                waiting.append(value)
    return places


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def framed(number: int, content: bytes) -> bytes:
    """A field with a length before it."""
    return varint(number << 3 | 2) + varint(len(content)) + content


Maker = Callable[[Random], bytes]


def one_of(*makers: Maker) -> Maker:
    """Inputs of several kinds, as often of each."""
    return lambda random: makers[random.randint(0, len(makers) - 1)](random)


def of_text(seeds: Sequence[str], words: Sequence[str] = ()) -> Maker:
    """Inputs by words, and a third by bytes."""
    encoded = [seed.encode() for seed in seeds]
    tokens = [word.encode() for word in words]
    by_words: Maker = lambda random: mutated_text(random, seeds, words)  # noqa: E731 - three of a kind
    return one_of(by_words, by_words, lambda random: mutated_bytes(random, encoded, tokens))


def of_json(documents: Sequence[Any]) -> Maker:
    """Inputs by nodes."""
    return lambda random: mutated_json(random, documents)
