"""`decode`: a message to the dict that Go's JSON form of it decodes to.

What Go's generated decoders accept is accepted: unknown fields are skipped, of repeated single values the last wins, repeated single
messages are merged. Two things are bounded that are not upstream: nesting, and what empty messages (two bytes each) may grow to.
"""

from __future__ import annotations

import base64
import struct
from typing import Any, Final

from kcp_py.apimachinery.codec import MAX_DEPTH
from kcp_py.apimachinery.protobuf.errors import END, ProtobufError
from kcp_py.apimachinery.protobuf.messages import Field, Message, Op, Shape, message

_SLACK: Final = 16 * 1024
"""Weight that every body may have; what Go writes of objects that are not empty throughout weighs no more than its bytes."""

_INT, _INT32, _BOOL, _DOUBLE, _STRING, _BYTES, _RAW, _MESSAGE = (int(op) for op in Op)
_ONE, _LIST, _MAP, _INLINE = (int(shape) for shape in Shape)
_KEY_TAG: Final = 1 << 3 | 2
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
        return _Reader(raw).message(of, 0, len(raw), MAX_DEPTH - 1, {})
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
        """Read the fields from `pos` to `end` into `out`, then what is written in JSON though it is absent."""
        if levels < 0:
            raise ProtobufError(f"exceeded max depth of {MAX_DEPTH}")
        self.budget -= of.weight
        if self.budget < 0:
            raise ProtobufError("too many empty messages")
        data, fields = self.data, of.fields
        while pos < end:
            tag = data[pos]
            pos += 1
            if tag > 127:
                tag, pos = _varint(data, pos - 1)
            field = fields.get(tag)
            if field is None:
                pos = _skip(data, pos, end, _checked(of, tag))
                continue
            op, shape, name, omit, child = field
            if op < _STRING and shape != _MAP:
                value, pos = self._number(op, pos)
                if shape == _LIST:
                    out.setdefault(name, []).append(value)
                elif value or not omit:
                    out[name] = value
                else:
                    out.pop(name, None)
                continue
            length = data[pos]
            pos += 1
            if length > 127:
                length, pos = _length(data, pos - 1)
            start, pos = pos, pos + length
            if pos > end:
                raise ProtobufError(END)
            if shape == _MAP:
                entries = out.get(name)
                if entries is None:
                    entries = out[name] = {}
                self._entry(field, start, pos, levels - 1, entries)
                continue
            if op == _STRING:
                value = data[start:pos].decode()
            elif child is None:
                value = data[start:pos] if op == _RAW else base64.b64encode(data[start:pos]).decode()
            elif shape == _INLINE:
                self.message(child, start, pos, levels, out)
                continue
            elif shape == _LIST:
                value = self._value(child, start, pos, levels - 2, {})
            else:
                before = out.get(name) if child.convert is None else None
                value = self._value(child, start, pos, levels - 1, {} if before is None else before)
                if omit and value is None:
                    out.pop(name, None)
                else:
                    out[name] = value
                continue
            if shape == _LIST:
                items = out.get(name)
                if items is None:
                    out[name] = [value]
                else:
                    items.append(value)
            elif value or not omit:
                out[name] = value
            else:
                out.pop(name, None)
        if pos > end:
            raise ProtobufError(END)
        for name, zero in of.scalars.items():
            if name not in out:
                out[name] = zero
        for name, child in of.nested:
            if name not in out:
                out[name] = child.zero()
        return out

    def _value(self, of: Message, pos: int, end: int, levels: int, out: dict[str, Any]) -> Any:
        read = self.message(of, pos, end, levels, out)
        return read if of.convert is None else of.convert(read, levels)

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
        """Read one entry of a map: a message of key 1 and value 2, of which either may be absent."""
        data, (op, _, _, _, child) = self.data, field
        key: str = ""
        value: Any = None
        value_tag = 2 << 3 | (2 if op >= _STRING else 1 if op == _DOUBLE else 0)
        while pos < end:
            tag, pos = _varint(data, pos)
            if tag == value_tag and op < _STRING:
                value, pos = self._number(op, pos)
                continue
            if tag not in {_KEY_TAG, value_tag}:
                pos = _skip(data, pos, end, tag)
                continue
            length, pos = _length(data, pos)
            start, pos = pos, pos + length
            if pos > end:
                raise ProtobufError(END)
            if tag == _KEY_TAG:
                key = data[start:pos].decode()
            elif op == _STRING:
                value = data[start:pos].decode()
            elif child is not None:
                value = self._value(child, start, pos, levels - 1, {})
            else:
                value = base64.b64encode(data[start:pos]).decode()
        if pos > end:
            raise ProtobufError(END)
        if value is None and child is not None:
            # An absent message is an empty one, and weighs as much.
            value = self._value(child, end, end, levels - 1, {})
        elif value is None:
            value = "" if op >= _STRING else 0
        entries[key] = value


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
