"""JSON documents of megabytes, decoded in pieces: between two of them, other threads get the interpreter.

The decoder is one call of C code that keeps the interpreter's lock for as long as it runs, a tenth of a second for three megabytes of small
values. Here a scanner finds out where large objects and lists can be cut. It checks nothing: what lies between two cuts is decoded by the
same decoder, as members of an object or a list of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import orjson

from kcp_py.apimachinery.serializer.decoding import MAX_DEPTH, DecodeError

PIECE_BYTES: Final = 32 * 1024
"""Bytes that are scanned at once. Pieces are larger by one member, and by the strings in them."""

_BLANK: Final = b" \t\r\n"
_TEXT: Final = rb"(?:[^\"\\]++|\\.)*+"
_STRING: Final = rb'"' + _TEXT + rb'"'


def _containers(levels: int) -> bytes:
    """Matches objects and lists with so many levels of others in them, whatever stands in them."""
    inner = rb"|" + _containers(levels - 1) if levels else b""
    return rb"[\[{](?:[^\"\[\]{}]++|" + _STRING + inner + rb")*+[\]}]"


_VALUES: Final = rb"(?:[^\"\[\]{},]++|" + _STRING + rb"|" + _containers(2) + rb")*+"
_MATCH_TEXT: Final = re.compile(_TEXT, re.DOTALL).match
_MATCH_VALUES: Final = re.compile(_VALUES, re.DOTALL).match
_MATCH_MEMBERS: Final = re.compile(rb"(?:" + _VALUES + rb",)*+", re.DOTALL).match


class MalformedError(ValueError):
    """Not JSON.

    Attributes:
        text: a shorter document with the same fault.
        error: the error of the decoder about it.
    """

    def __init__(self, text: bytes, error: orjson.JSONDecodeError) -> None:
        super().__init__(str(error))
        self.text = text
        self.error = error


class Frame:
    """An object or a list that the scanner is in.

    Attributes:
        depth: how many others it is in.
        container: its decoded part; None as long as it need not be cut.
    """

    __slots__ = ("after_child", "comma", "container", "depth", "is_object", "opened", "outer", "start", "step")

    def __init__(self, opened: int, depth: int, *, is_object: bool) -> None:
        self.depth = depth
        self.opened = opened
        self.is_object = is_object
        # Where that begins which is not decoded yet, and the last comma in it.
        self.start = opened + 1
        self.comma = -1
        # The value that was decoded last is a whole member: a comma or the end follows.
        self.after_child = False
        self.container: Any = None
        # The frame around this one, and this one's name or index in it; known with `container`.
        self.outer: Frame | None = None
        self.step: str | int = ""

    @property
    def path(self) -> str:
        """Where it is in the document, as in `spec.ports[0]`. Names may be megabytes long, so it is joined only where it is needed."""
        steps: list[str | int] = []
        frame = self
        while frame.outer is not None:
            steps.append(frame.step)
            frame = frame.outer
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(steps))
        return text.removeprefix(".") if steps and isinstance(steps[-1], str) else text


Visit = Callable[[Frame, bytes, Any], Any]
"""Called with each piece before it is added to the container. Arguments: the container, the piece as a document, and its decoded value.
Returns the value to add."""
VisitMember = Callable[[Frame, str], None]
"""Called before a member that is itself decoded in pieces is added to an object: the object, and the member's name."""


def decode(body: bytes, visit: Visit, visit_member: VisitMember, *, new_object: Callable[[], Any] = dict, piece: int = PIECE_BYTES) -> Any:
    """Decode a document.

    Args:
        body: the document.
        visit: called with each piece.
        visit_member: called for each member of an object that is decoded in pieces.
        new_object: makes what objects that are cut are decoded to, with `update` and assignment of members as a dict has them.
        piece: bytes that are scanned at once.

    Raises:
        MalformedError: not JSON.
        DecodeError: nested too deeply, as far as that is found while the document is scanned.
    """
    return _Decoder(body, visit, visit_member, new_object, piece).decode()


class _Decoder:
    def __init__(self, body: bytes, visit: Visit, visit_member: VisitMember, new_object: Callable[[], Any], piece: int) -> None:
        self._body = body
        self._new_object = new_object
        self._piece = piece
        self._visit = visit
        self._visit_member = visit_member
        self._frames: list[Frame] = []

    def decode(self) -> Any:
        body = self._body
        frames = self._frames
        piece = self._piece
        size = len(body)
        at = size - len(body.lstrip(_BLANK))
        if body[at : at + 1] not in {b"{", b"["}:
            return self._whole()
        root = frame = Frame(at, 0, is_object=body[at] == ord("{"))
        frames.append(frame)
        at += 1
        while True:
            window = at + piece
            end = _end(_MATCH_MEMBERS(body, at, window))
            if end > at:
                frame.comma = end - 1
                if end - frame.start > piece:
                    self._cut(frame)
            at = _end(_MATCH_VALUES(body, end, window))
            if at >= size:
                self._give_up()
            match body[at]:
                case 0x7B | 0x5B:  # { [
                    if len(frames) >= MAX_DEPTH:
                        # Here, not when the pieces are decoded: the paths of a million nested lists take gigabytes.
                        raise DecodeError(f"exceeded max depth of {MAX_DEPTH}")
                    frame = Frame(at, len(frames), is_object=body[at] == 0x7B)
                    frames.append(frame)
                    at += 1
                case 0x7D | 0x5D:  # } ]
                    if (body[at] == 0x7D) is not frame.is_object:
                        self._give_up()
                    self._close(frame, at)
                    at += 1
                    frames.pop()
                    if not frames:
                        break
                    frame = frames[-1]
                case 0x22:  # "
                    at = self._end_of_string(at + 1)
                case 0x2C:  # ,
                    frame.comma = at
                    at += 1
        if root.container is None:
            return self._whole()
        if body[at:].strip(_BLANK):
            self._fail(b"[]", at)
        return root.container

    def _whole(self) -> Any:
        """The document in one piece."""
        try:
            value = orjson.loads(self._body)
        except orjson.JSONDecodeError as error:
            raise MalformedError(self._body, error) from None
        return self._visit(Frame(0, 0, is_object=False), self._body, value)

    def _end_of_string(self, at: int) -> int:
        body = self._body
        while True:
            end = _end(_MATCH_TEXT(body, at, at + 8 * self._piece))
            if body[end : end + 1] == b'"':
                return end + 1
            if end == at:
                self._give_up()
            at = end

    def _cut(self, frame: Frame) -> None:
        """Decode the text before the last comma of the innermost frame."""
        self._begin()
        self._add(frame, frame.comma)
        frame.start = frame.comma + 1

    def _begin(self) -> None:
        """Make the containers of all frames, each within the one around it."""
        outer: Frame | None = None
        for frame in self._frames:
            if frame.container is None:
                frame.container = self._new_object() if frame.is_object else []
                if outer is not None:
                    self._add_child(outer, frame)
            outer = frame

    def _add_child(self, outer: Frame, frame: Frame) -> None:
        if outer.comma >= outer.start:
            self._add(outer, outer.comma)
            outer.start = outer.comma + 1
        if outer.after_child:
            self._fail_at(outer)
        text = self._body[outer.start : frame.opened]
        if outer.is_object:
            try:
                (name,) = orjson.loads(b"{" + text + b"{}}")
            except ValueError:
                self._fail_at(outer)
            self._visit_member(outer, name)
            frame.step = name
            outer.container[name] = frame.container
        else:
            if text.strip(_BLANK):
                self._fail_at(outer)
            frame.step = len(outer.container)
            outer.container.append(frame.container)
        frame.outer = outer
        outer.after_child = True

    def _close(self, frame: Frame, at: int) -> None:
        if frame.container is None:
            return
        self._add(frame, at)
        if len(self._frames) > 1:
            self._frames[-2].start = at + 1

    def _add(self, frame: Frame, end: int) -> None:
        """Decode the frame's members up to a comma or to its end."""
        text = self._body[frame.start : end]
        if frame.after_child:
            rest = text.lstrip(_BLANK)
            if rest[:1] not in {b"", b","}:
                self._fail_at(frame)
            frame.after_child = False
            if not rest:
                return
            text = rest[1:]
            frame.start = end - len(text)
        document = b"{" + text + b"}" if frame.is_object else b"[" + text + b"]"
        try:
            value = orjson.loads(document)
        except orjson.JSONDecodeError:
            self._fail_at(frame)
        if not value:
            self._fail_at(frame)
        value = self._visit(frame, document, value)
        if frame.is_object:
            frame.container.update(value)
        else:
            frame.container.extend(value)

    def _give_up(self) -> None:
        """Report the fault in the text that is not decoded yet, which cannot be scanned any further."""
        self._begin()
        self._fail_at(self._frames[-1])

    def _fail_at(self, frame: Frame) -> None:
        """Report a fault in the part of a frame that is not decoded yet."""
        before = b'{"":""' if frame.is_object else b'[""'
        if frame.start == frame.opened + 1:
            before = before[:1]
        elif not frame.after_child:
            before += b","
        self._fail(before, frame.start)

    def _fail(self, before: bytes, at: int) -> None:
        """Raise the decoder's error about the document from a place on, with `before` instead of the text in front of it."""
        text = before + self._body[at:]
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise MalformedError(text, error) from None
        raise AssertionError("a fault that the decoder does not see")


def _end(match: re.Match[bytes] | None) -> int:
    assert match is not None  # all of these patterns match nothing, too
    return match.end()
