"""Decoded JSON to YAML, as sigs.k8s.io/yaml writes it: keys sorted, lists not indented, text over several lines as literal blocks.

Source: go.yaml.in/yaml/v2 `encode.go`, `sorter.go`. The emitter is libyaml, of which go-yaml is a port.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from functools import cmp_to_key
from typing import Any, Final

import yaml
from yaml.events import (
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
    StreamStartEvent,
)

from kcp_py.apimachinery.serializer.yaml.scalars import resolve
from kcp_py.golang.floats import format_float

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ][0-9:]+.*)?", re.ASCII)
_BASE_60: Final = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?", re.ASCII)
_PLAIN: Final = (True, False)
_QUOTED: Final = (False, True)


def encode(obj: Any) -> bytes:
    """One document, without `---`; `obj` is nested no deeper than decoders allow."""
    stream = io.BytesIO()
    dumper = yaml.CSafeDumper(stream, encoding="utf-8", allow_unicode=True, default_flow_style=False)
    try:
        emit = dumper.emit
        emit(StreamStartEvent(encoding="utf-8"))
        emit(DocumentStartEvent(explicit=False))
        _emit(emit, obj)
        emit(DocumentEndEvent(explicit=False))
        emit(StreamEndEvent())
    finally:
        dumper.dispose()
    return stream.getvalue()


def _emit(emit: Any, value: Any) -> None:
    match value:
        case dict():
            emit(MappingStartEvent(None, None, implicit=True, flow_style=not value))
            for key in _sorted(value):
                _emit_text(emit, key)
                _emit(emit, value[key])
            emit(MappingEndEvent())
        case list() | tuple():
            emit(SequenceStartEvent(None, None, implicit=True, flow_style=not value))
            for item in value:
                _emit(emit, item)
            emit(SequenceEndEvent())
        case str():
            _emit_text(emit, value)
        case None:
            emit(ScalarEvent(None, None, _PLAIN, "null"))
        case bool():
            emit(ScalarEvent(None, None, _PLAIN, "true" if value else "false"))
        case float():
            emit(ScalarEvent(None, None, _PLAIN, format_float(value)))
        case _:
            emit(ScalarEvent(None, None, _PLAIN, str(value)))


def _emit_text(emit: Any, text: str) -> None:
    if "\n" in text:
        emit(ScalarEvent(None, None, _QUOTED, text, style="|"))
    elif type(resolve(text)) is not str or text == "<<" or _DATE.fullmatch(text) or _BASE_60.fullmatch(text):
        emit(ScalarEvent(None, None, _QUOTED, text, style='"'))
    else:
        emit(ScalarEvent(None, None, (True, True), text))


def _sorted(keys: Iterable[str]) -> list[str]:
    found = list(keys)
    if all(key.isalpha() and key.isascii() for key in found):
        return sorted(found)
    return sorted(found, key=cmp_to_key(_compare))


def _compare(left: str, right: str) -> int:
    """go-yaml's natural order: letters last, runs of digits as numbers."""
    for position, (a, b) in enumerate(zip(left, right, strict=False)):
        if a == b:
            continue
        if a.isalpha() or b.isalpha():
            if a.isalpha() and b.isalpha():
                return -1 if a < b else 1
            return -1 if b.isalpha() else 1
        start = 0
        if "0" in {a, b}:
            before = position - 1
            while before >= 0 and left[before].isdecimal():
                if left[before] != "0":
                    start = 1
                    break
                before -= 1
        left_digits, right_digits = _digits(left, position), _digits(right, position)
        left_number, right_number = int(f"{start}{left_digits}"), int(f"{start}{right_digits}")
        if left_number != right_number:
            return -1 if left_number < right_number else 1
        if len(left_digits) != len(right_digits):
            return -1 if len(left_digits) < len(right_digits) else 1
        return -1 if a < b else 1
    return len(left) - len(right)


def _digits(text: str, start: int) -> str:
    end = start
    # Beyond eighteen digits Go's int64 overflows; the order of such keys has no meaning.
    while end < len(text) and end - start < 18 and "0" <= text[end] <= "9":
        end += 1
    return text[start:end]
