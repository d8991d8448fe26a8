"""Faults and time of a test server over HTTP, for tests in other languages.

The paths are below `/testing/v1`, see docs/testing/test-server.md. Only administrators of the server have them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs

from kcp_py.golang.durations import parse_duration
from kcp_py.testing.clock import FakeClock
from kcp_py.testing.faultrules import Fault, described
from kcp_py.testing.faults import Faults

PATH: Final = "/testing/v1"
MOST_BYTES: Final = 64 * 1024
MOST_RULES: Final = 1000
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "latency": ("seconds",),
    "conflict": (),
    "expired": (),
    "too_many_requests": ("retry_after",),
    "internal_error": (),
    "unavailable": ("retry_after",),
    "timeout": (),
    "disconnect": ("afterwards",),
    "short_watches": ("seconds", "how"),
    "storage_error": ("error", "method", "afterwards"),
    "storage_latency": ("seconds", "method"),
}
"""Methods of `Faults`, and their own arguments."""
_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "seconds": (int, float),
    "probability": (int, float),
    "retry_after": int,
    "times": int,
    "skip": int,
    "afterwards": bool,
}
"""Of fields with other values than texts."""
_CAMEL: Final = re.compile(r"(?<=[a-z])([A-Z])")


class _RefusedError(Exception):
    """The request is answered with a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class RemoteControl:
    """An ASGI application: `/faults`, `/watches` and `/clock`."""

    def __init__(self, faults: Faults, clock: FakeClock, *, most_rules: int = MOST_RULES) -> None:
        """Control a server.

        Args:
            faults: its rules.
            clock: its time.
            most_rules: how many there may be.
        """
        self._most_rules = most_rules
        self._faults = faults
        self._clock = clock
        self._rules: dict[int, Fault] = {}
        self._made = 0

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer a request."""
        try:
            path = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(PATH).strip("/")
            code, answer = await self._answer(scope, path, receive)
        except _RefusedError as error:
            code = error.code
            answer = _status(code, error.reason, str(error))
        except (ValueError, OverflowError) as error:
            code, answer = 400, _status(400, "BadRequest", str(error))
        except TimeoutError as error:
            code, answer = 504, _status(504, "Timeout", str(error))
        body = json.dumps(answer).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Any, path: str, receive: Callable[[], Awaitable[Any]]) -> tuple[int, dict[str, Any]]:
        method = scope["method"]
        match method, path.split("/"):
            case "GET", ["faults"]:
                return 200, {"faults": [self._shown(number) for number in self._rules]}
            case "POST", ["faults"]:
                return 201, self._add(await _body(receive))
            case "DELETE", ["faults"]:
                return 200, {"removed": self._remove(parse_qs(scope["query_string"].decode("latin-1")).get("cluster", [""])[-1])}
            case "GET", ["faults", number] if self._has(number):
                return 200, self._shown(int(number))
            case "DELETE", ["faults", number] if self._has(number):
                shown = self._shown(int(number))
                self._faults.remove(self._rules.pop(int(number)))
                return 200, shown
            case "POST", ["watches"]:
                fields = _fields(await _body(receive))
                return 200, {"ended": self._faults.cut_watches(**fields)}
            case "GET", ["clock"]:
                return 200, self._time()
            case "POST", ["clock"]:
                await self._set(await _body(receive))
                return 200, self._time()
            case _, ["faults" | "watches" | "clock"]:
                raise _RefusedError(405, "MethodNotAllowed", f"{PATH}/{path} does not take {method}")
        raise _RefusedError(404, "NotFound", f"there is nothing at {PATH}/{path}")

    # Faults

    def _add(self, body: dict[str, Any]) -> dict[str, Any]:
        fields = _fields(body)
        kind = _snake(str(fields.pop("kind", "")))
        if kind not in _KINDS:
            raise ValueError(f"kind is one of {', '.join(map(_camel, _KINDS))}")
        if len(self._rules) >= self._most_rules:
            raise _RefusedError(429, "TooManyRequests", f"there are {self._most_rules} faults already")
        for others in _KINDS.values():
            if unknown := [name for name in others if name in fields and name not in _KINDS[kind]]:
                raise ValueError(f"{_camel(kind)} has no field {_camel(unknown[0])}")
        if "seconds" in _KINDS[kind] and "seconds" not in fields:
            raise ValueError(f"{_camel(kind)} needs seconds")
        self._made += 1
        self._rules[self._made] = getattr(self._faults, kind)(**fields)
        return self._shown(self._made)

    def _remove(self, cluster: str) -> int:
        found = [number for number, rule in self._rules.items() if not cluster or rule.selected.cluster == cluster]
        for number in found:
            self._faults.remove(self._rules.pop(number))
        return len(found)

    def _has(self, number: str) -> bool:
        return number.isascii() and number.isdigit() and int(number) in self._rules

    def _shown(self, number: int) -> dict[str, Any]:
        shown = described(self._rules[number])
        return {"id": number, **{_camel(name): value for name, value in shown.items()}, "kind": _camel(shown["kind"])}

    # Time

    def _time(self) -> dict[str, Any]:
        return {"now": self._clock.now.isoformat(timespec="microseconds").replace("+00:00", "Z")}

    async def _set(self, body: dict[str, Any]) -> None:
        if unknown := sorted(body.keys() - {"advance", "to", "settle"}):
            raise ValueError(f"the clock has no field {unknown[0]}")
        if "advance" in body and "to" in body:
            raise ValueError("advance and to exclude each other")
        settle = body.get("settle", True)
        if not isinstance(settle, bool):
            raise ValueError("settle is true or false")  # noqa: TRY004 - of a document
        if "to" in body:
            await self._clock.advance_to(_moment(body["to"]), settle=settle)
        elif "advance" in body:
            await self._clock.advance(_duration(body["advance"]), settle=settle)
        elif settle:
            await self._clock.settle()


def _fields(body: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a method.

    Raises:
        ValueError: a value has another type.
    """
    fields = {_snake(name): value for name, value in body.items()}
    for name, value in fields.items():
        wanted = _TYPES.get(name, str)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            text = "a text" if wanted is str else "true or false" if wanted is bool else "a number"
            raise ValueError(f"{_camel(name)} is {text}")
    return fields


async def _body(receive: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ValueError("the client has left")
        parts += message.get("body", b"")
        if len(parts) > MOST_BYTES:
            raise _RefusedError(413, "RequestEntityTooLarge", f"the body has more than {MOST_BYTES} bytes")
        if not message.get("more_body"):
            break
    try:
        found = json.loads(parts)
    except (ValueError, RecursionError):
        raise ValueError("the body is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("the body is not an object of JSON")  # noqa: TRY004 - of a document
    return found


def _duration(value: Any) -> float:
    if isinstance(value, str):
        return parse_duration(value) / 1e9
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    raise ValueError("advance is a number of seconds, or a text such as 1h30m")


def _moment(value: Any) -> datetime:
    found = datetime.fromisoformat(value) if isinstance(value, str) else None
    if found is None or found.tzinfo is None:
        raise ValueError("to is a time such as 2030-01-01T00:00:00Z")
    return found


def _snake(name: str) -> str:
    return _CAMEL.sub(lambda found: f"_{found[1].lower()}", name)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def _status(code: int, reason: str, message: str) -> dict[str, Any]:
    text = message or HTTPStatus(code).phrase
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text, "reason": reason, "code": code}
