"""`HubConverter`: objects of one version as those of another, by the conversion functions of their classes over the hub.

A further version has `convert_to(self)`, which returns an object of the hub, and the class method `convert_from(hub)`. As of conversion
webhooks, only labels and annotations of the metadata may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.models import decode, encode
from kcp_py.library.functions import name_of
from kcp_py.library.types.described import TypedResource
from kcp_py.schema.crd.conversion_review import restored_metadata
from kcp_py.telemetry.programcode import passes

_PER_TURN: Final = 20
"""Objects that are converted before other work gets its turn."""

_log = structlog.get_logger()

Object = dict[str, Any]


class HubConverter:
    """Converts between the versions of a resource (`registry.resource.Converter`)."""

    def __init__(self, hub: TypedResource) -> None:
        self._versions = {one.api_version: one for one in hub.versions}

    async def __call__(self, objects: Sequence[Object], api_version: str) -> list[Object]:
        """Bring objects to a version.

        Raises:
            StatusError: 500, a function has failed. It is logged.
        """
        target = self._versions[api_version]
        result = []
        for count, obj in enumerate(objects, start=1):
            if (source := self._versions.get(obj["apiVersion"])) is None:
                raise errors.internal(f"request to convert CR from an invalid group/version: {obj['apiVersion']}")
            result.append(obj if source is target else converted(obj, source, target))
            if count % _PER_TURN == 0:
                await asyncio.sleep(0)
        return result


def converted(obj: Object, source: TypedResource, target: TypedResource) -> Object:
    """An object of one version in another one.

    Raises:
        StatusError: 500, a function has failed, or returned an object of another class. It is logged.
    """
    if not (source.converts or target.converts):
        return {**obj, "apiVersion": target.api_version}
    function: Callable[..., Any] = source.model
    try:
        instance: Any = decode(source.model, obj)
        if source.converts:
            function = source.model.convert_to  # type: ignore[attr-defined]
            instance = _checked(function(instance), (source.hub or source).model)
        elif target.converts and source.hub is not None:
            # A version without functions has the form of the hub.
            instance = decode(source.hub.model, obj)
        if target.converts:
            function = target.model.convert_from  # type: ignore[attr-defined]
            instance = _checked(function(instance), target.model)
        found = encode(instance)
        found["apiVersion"], found["kind"] = target.api_version, target.kind
        metadata = obj["metadata"]
        found["metadata"] = restored_metadata(obj, found) if found.get("metadata") else metadata
    except BaseException as error:
        if passes(error):
            raise
        raise _failure(function, error, source, target) from None
    return found


def _checked(instance: Any, model: type) -> Any:
    if not isinstance(instance, model):
        raise TypeError(f"returned {type(instance).__name__} instead of {model.__name__}")
    return instance


def _failure(function: Callable[..., Any], error: BaseException, source: TypedResource, target: TypedResource) -> StatusError:
    name = name_of(function)
    # The text of the error may show the object, which is not for the answers to requests over all clusters.
    _log.error("conversion_failed", function=name, error=f"{type(error).__name__}: {error}", exc_info=error)
    return errors.internal(
        f"conversion of {source.plural}.{source.group} from {source.version} to {target.version} failed: {name}: {type(error).__name__}"
    )
