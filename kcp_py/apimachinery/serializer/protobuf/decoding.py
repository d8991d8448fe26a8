"""`decode`: a message to the dict that Go's JSON form of it decodes to.

What Go's generated decoders accept is accepted: unknown fields are skipped, of repeated single values the last wins, repeated single
messages are merged. Two things are bounded that are not upstream: nesting, and what empty messages (two bytes each) may grow to; and texts
that are not UTF-8 are refused, of which upstream's JSON form would be another text.
"""

from __future__ import annotations

import base64
import struct
from functools import lru_cache
from typing import Any, Final

from kcp_py.apimachinery.serializer.json.codec import MAX_DEPTH
from kcp_py.apimachinery.serializer.protobuf.errors import END, ProtobufError
from kcp_py.apimachinery.serializer.protobuf.messages import Field, Message, Op, Shape, message

_SLACK: Final = 16 * 1024
"""Weight that every body may have; what Go writes of objects that are not empty throughout weighs no more than its bytes."""

_INT, _INT32, _BOOL, _DOUBLE, _STRING, _BYTES, _RAW, _MESSAGE = (int(op) for op in Op)
_TEXT, _NUMBER, _OBJECT, _ONE, _LIST, _MAP, _TEXTS, _INLINE = (int(shape) for shape in Shape)
_LONGEST_SMALL: Final = 32
"""Bytes of a message up to which what it is in JSON is remembered."""
_KEY_TAG: Final = 1 << 3 | 2
_VALUE_TAG: Final = 2 << 3 | 2
_TEXT_ENTRY: Final = Field(int(Shape.STRINGS), int(Op.STRING), "", False, None)  # a row
_LARGEST_INT: Final = 2.0**63


def decode(name: str, raw: bytes) -> dict[str, Any]:
    """Decode a message that is an object in JSON.

    Args:
        name: of the message, such as `io.k8s.api.core.v1.ConfigMap`.
        raw: the message without its envelope; so the result has no `apiVersion` and `kind`.

    Raises:
        ProtobufError: not such a message, nested too deeply, or of too many empty parts.
        KeyError: there is no such message.
    """
    return decode_message(message(name), raw)


def decode_message(of: Message, raw: bytes) -> dict[str, Any]:
    """Decode a message whose description is at hand. Errors: `decode`."""
    try:
        return _Reader(raw).message(of, 0, len(raw), MAX_DEPTH - 1, of.scalars.copy())
    except ProtobufError:
        raise
    except IndexError:
        raise ProtobufError(END) from None
    except UnicodeDecodeError:
        raise ProtobufError("string field contains invalid UTF-8") from None
    except ValueError as error:
        # JSON within the message.
        raise ProtobufError(str(error)) from None


class _Reader:
    __slots__ = ("budget", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.budget = _SLACK + len(data)

    def message(self, of: Message, pos: int, end: int, levels: int, out: dict[str, Any]) -> dict[str, Any]:
        """Read the fields from `pos` to `end` into `out`, then the members that JSON has although they are absent.

        Args:
            of: the message.
            pos: of its first byte.
            end: behind its last.
            levels: of nesting that are left.
            out: holds the message's scalars, or its parts that were read before.
        """
        if levels < 0:
            raise ProtobufError(f"exceeded max depth of {MAX_DEPTH}")
        self.budget -= of.weight
        if self.budget < 0:
            raise ProtobufError("too many empty messages")
        data, get = self.data, of.fields.get
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                if data[pos] < 128:
                    tag += (data[pos] << 7) - 128
                    pos += 1
                else:
                    tag, pos = _varint(data, pos - 1)
            field = get(tag)
            if field is None:
                pos = _skip(data, pos, end, _checked(of, tag))
                continue
            shape, op, name, omit, child = field
            value: Any
            if shape == _NUMBER:
                value, pos = self._number(op, pos)
                if value or not omit:
                    out[name] = value
                elif name in out:
                    del out[name]
                continue
            if shape == _LIST and op < _STRING:
                value, pos = self._number(op, pos)
                _append(out, name, value)
                continue
            length = data[pos]
            pos += 1
            if length > 127:
                if data[pos] < 128:
                    length += (data[pos] << 7) - 128
                    pos += 1
                else:
                    length, pos = _length(data, pos - 1)
            start, pos = pos, pos + length
            if pos > end:
                raise ProtobufError(END)
            if shape == _TEXT:
                value = data[start:pos].decode()
            elif shape == _OBJECT:
                before = out.get(name)
                out[name] = self.message(child, start, pos, levels - 1, child.scalars.copy() if before is None else before)  # type: ignore[arg-type, union-attr]
                continue
            elif shape == _LIST:
                _append(out, name, self._element(op, child, start, pos, levels - 2))
                continue
            elif shape in {_TEXTS, _MAP}:
                entries = out.get(name)
                if entries is None:
                    entries = out[name] = {}
                if shape == _TEXTS:
                    self._texts(start, pos, entries)
                else:
                    self._entry(field, start, pos, levels - 1, entries)
                continue
            elif shape == _INLINE:
                self.message(child, start, pos, levels, out)  # type: ignore[arg-type]
                continue
            elif child is not None:
                value = self._value(child, start, pos, levels - 1)
                if omit and value is None:
                    out.pop(name, None)
                else:
                    out[name] = value
                continue
            else:
                value = data[start:pos] if op == _RAW else base64.b64encode(data[start:pos]).decode()
            if value or not omit:
                out[name] = value
            elif name in out:
                del out[name]
        if pos > end:
            raise ProtobufError(END)
        for name, child in of.nested:
            if name not in out:
                out[name] = child.zero()
        return out

    def _value(self, of: Message, pos: int, end: int, levels: int) -> Any:
        convert = of.convert
        if convert is None:
            return self.message(of, pos, end, levels, of.scalars.copy())
        if of.small and end - pos <= _LONGEST_SMALL and levels > 1:
            self.budget -= 1
            return _small_value(of, self.data[pos:end])
        return convert(self.message(of, pos, end, levels, of.scalars.copy()), levels)

    def _element(self, op: int, child: Message | None, pos: int, end: int, levels: int) -> Any:
        if child is not None:
            return self._value(child, pos, end, levels)
        value = self.data[pos:end]
        return value.decode() if op == _STRING else base64.b64encode(value).decode()

    def _texts(self, pos: int, end: int, entries: dict[str, Any]) -> None:
        """Read one entry of a map of texts: both short and in order, as they usually are, or else in any way."""
        data = self.data
        if end - pos < 128 and end - pos >= 4 and data[pos] == _KEY_TAG:
            middle = pos + 2 + data[pos + 1]
            if middle + 2 <= end and data[middle] == _VALUE_TAG and middle + 2 + data[middle + 1] == end:
                entries[data[pos + 2 : middle].decode()] = data[middle + 2 : end].decode()
                return
        self._entry(_TEXT_ENTRY, pos, end, 0, entries)

    def _number(self, op: int, pos: int) -> tuple[Any, int]:
        data = self.data
        if op == _DOUBLE:
            if pos + 8 > len(data):
                raise ProtobufError(END)
            return _float(struct.unpack_from("<d", data, pos)[0]), pos + 8
        value = data[pos]
        pos += 1
        if value > 127:
            value, pos = _varint(data, pos - 1)
            if op == _INT32:
                value &= 0xFFFFFFFF
                if value >= 1 << 31:
                    value -= 1 << 32
            elif value >= 1 << 63:
                value -= 1 << 64
        return (value != 0 if op == _BOOL else value), pos

    def _entry(self, field: Field, pos: int, end: int, levels: int, entries: dict[str, Any]) -> None:
        """Read one entry of a map: a message of key 1 and value 2, of which either may be absent. Go does not look at their wire types."""
        data, (_, op, _, _, child) = self.data, field
        key: str = ""
        value: Any = None
        while pos < end:
            tag, pos = _varint(data, pos)
            number = (tag >> 3) & 0xFFFFFFFF
            if number == 2 and op < _STRING:
                value, pos = self._number(op, pos)
                continue
            if number not in {1, 2}:
                pos = _skip(data, pos, end, tag)
                continue
            length, pos = _length(data, pos)
            start, pos = pos, pos + length
            if pos > end:
                raise ProtobufError(END)
            if number == 1:
                key = data[start:pos].decode()
            elif op == _STRING:
                value = data[start:pos].decode()
            elif child is not None:
                value = self._value(child, start, pos, levels - 1)
            else:
                value = base64.b64encode(data[start:pos]).decode()
        if pos > end:
            raise ProtobufError(END)
        if value is None and child is not None:
            # An absent message is an empty one, and weighs as much.
            value = self._value(child, end, end, levels - 1)
        elif value is None:
            value = "" if op >= _STRING else 0
        entries[key] = value


def _append(out: dict[str, Any], name: str, value: Any) -> None:
    items = out.get(name)
    if items is None:
        out[name] = [value]
    else:
        items.append(value)


@lru_cache(maxsize=4096)
def _small_value(of: Message, raw: bytes) -> Any:
    reader = _Reader(raw)
    return of.convert(reader.message(of, 0, len(raw), 1, of.scalars.copy()), 1)  # type: ignore[misc]


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFFFFFFFFFFFFFF, pos
        shift += 7
        if shift > 63:
            raise ProtobufError("proto: integer overflow")


def _length(data: bytes, pos: int) -> tuple[int, int]:
    length, pos = _varint(data, pos)
    if length >= 1 << 63:
        raise ProtobufError("proto: negative length found during unmarshaling")
    return length, pos


def _checked(of: Message, tag: int) -> int:
    """A tag that is not of a known field of the right type: skipped, unless the number is known or cannot be."""
    number, wire_type = (tag >> 3) & 0xFFFFFFFF, tag & 7
    kind = of.name.rpartition(".")[2]
    if wire_type == 4:
        raise ProtobufError(f"proto: {kind}: wiretype end group for non-group")
    if not 0 < number < 1 << 31:
        raise ProtobufError(f"proto: {kind}: illegal tag {number - (1 << 32) if number else 0} (wire type {tag})")
    if (name := of.numbers.get(number)) is not None:
        raise ProtobufError(f"proto: wrong wireType = {wire_type} for field {name[:1].upper()}{name[1:]}")
    return tag


def _skip(data: bytes, pos: int, end: int, tag: int) -> int:
    """The position after the value of an unknown field; groups may be nested."""
    depth = 0
    while True:
        wire_type = tag & 7
        if wire_type == 0:
            _, pos = _varint(data, pos)
        elif wire_type == 1:
            pos += 8
        elif wire_type == 2:
            length, pos = _length(data, pos)
            pos += length
        elif wire_type == 3:
            depth += 1
        elif wire_type == 4:
            if depth == 0:
                raise ProtobufError("proto: unexpected end of group")
            depth -= 1
        elif wire_type == 5:
            pos += 4
        else:
            raise ProtobufError(f"proto: illegal wireType {wire_type}")
        if pos > end:
            raise ProtobufError(END)
        if depth == 0:
            return pos
        tag, pos = _varint(data, pos)


def _float(value: float) -> float | int:
    """A number as it comes back from JSON: Go writes whole ones without a fraction."""
    if value - value != 0:
        raise ProtobufError(f"json: unsupported value: {'NaN' if value != value else '+Inf' if value > 0 else '-Inf'}")  # noqa: PLR0124
    return int(value) if value.is_integer() and -_LARGEST_INT <= value < _LARGEST_INT else value
