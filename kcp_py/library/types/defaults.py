"""`default_of`: the default of a field as JSON."""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import uuid
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from kcp_py.client.forms import to_base64, to_duration
from kcp_py.library.types.fields import DefinitionError, Field, fields_of, is_structure, is_url


def default_of(field: Field, place: str, *, camel: bool) -> Any:
    """The default of a field as JSON; None where it has none, or an empty one, which is what clients see without one, too.

    Args:
        field: with a default.
        place: for messages.
        camel: whether fields of structures have names in camelCase.

    Raises:
        DefinitionError: the value has no form in JSON, or is not always the same.
    """
    value = field.default if field.factory is None else _made(field.factory, place)
    found = _plain(value, place, camel=camel)
    if field.factory is not None and found != _plain(_made(field.factory, place), place, camel=camel):
        raise DefinitionError(f"{place}: default_factory gives different values; set the value in the hook `default`")
    # The format of bytes has no empty text.
    return None if (found in ([], {}) and not is_structure(type(value))) or value == b"" else found


def _made(factory: Any, place: str) -> Any:
    try:
        return factory()
    except TypeError as error:
        raise DefinitionError(f"{place}: default_factory fails: {error}; set the value in the hook `default`") from None


def _plain(value: Any, place: str, *, camel: bool) -> Any:
    """A default value as JSON. Members of structures that have their own default are left out: the schema fills them in."""
    if value is None or (isinstance(value, str | bool | int | float) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return _plain(value.value, place, camel=camel)
    if isinstance(value, bytes):
        return to_base64(value)
    if isinstance(value, dt.timedelta):
        try:
            return to_duration(value)
        except ValueError as error:
            raise DefinitionError(f"{place}: the default {error}") from None
    if isinstance(value, dt.datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dt.date | uuid.UUID | ipaddress.IPv4Address | ipaddress.IPv6Address | PurePath) or is_url(type(value)):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(one, place, camel=camel) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted(_plain(one, place, camel=camel) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one, place, camel=camel) for one in value]
    if is_structure(type(value)):
        members = {}
        for field in fields_of(type(value), place, camel=camel):
            member = _plain(getattr(value, field.name), f"{place}.{field.name}", camel=camel)
            own = None if field.required else default_of(field, f"{place}.{field.name}", camel=camel)
            if member is not None and (field.required or member not in (own, [], {})):
                members[field.json] = member
        return members
    raise DefinitionError(f"{place}: the default {value!r} has no form in JSON")
