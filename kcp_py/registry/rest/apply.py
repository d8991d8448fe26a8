"""PATCH as server-side apply: a configuration is merged into the object, or becomes one, and its fields become its manager's.

Source: k8s.io/apiserver `pkg/endpoints/handlers/patch.go` (`applyPatcher`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kcp_py.aio.offload import Inline, offload
from kcp_py.aio.stages import next_stage
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.managedfields.entries import Managed
from kcp_py.apimachinery.meta.options import PatchOptions
from kcp_py.apimachinery.serializer.json.codec import decode_json_strict
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.golang.types import json_type
from kcp_py.registry.rendering import CLUSTER_ANNOTATION
from kcp_py.registry.rest.conform import check_metadata, conform, warning_lines
from kcp_py.registry.rest.kinds import body_kind
from kcp_py.registry.rest.scale import SCALE_TYPE
from kcp_py.registry.rest.update import check_identity, other_uid
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.store import Access, Current, apply_configuration, check_configuration, repeat_configuration, update
from kcp_py.registry.store.access import StoreResult
from kcp_py.registry.subresources import SCALE_KIND
from kcp_py.registry.writerequest import Decoding, Resolved, WriteRequest


class Configuration(NamedTuple):
    """A decoded configuration."""

    obj: dict[str, Any]
    repeated: list[str]
    """The strict decoding errors about repeated keys."""


class Applied(NamedTuple):
    """What a configuration makes of an object."""

    obj: dict[str, Any]
    """With its owners."""
    managed: Managed
    """What its managedFields say."""
    conforms: bool
    """Whether the object is as pruning and defaults leave it: nulls of the configuration that these drop are put back."""


async def apply(access: Access, request: WriteRequest, body: bytes) -> StoreResult:
    """Apply a configuration to a stored object; `created` tells whether that made the object.

    Args:
        access: the store.
        request: who applies what; its options are PatchOptions, and its manager becomes the owner of what it applies.
        body: the configuration as YAML, which may be JSON.

    Raises:
        StatusError: 400, 409 for conflicts, 422, 500 for a configuration that does not fit the type, and whatever admission says.
        StaleStateError: cluster or CRD changed meanwhile; retry with fresh ones.
    """
    target = request.target
    # Before the object is looked up: a bad body is a 400, whether or not there is an object. An attempt uses it up.
    unused = [await read_configuration(body)]
    warnings_before = len(request.warnings)

    async def transform(current: Current | None) -> dict[str, Any]:
        del request.warnings[warnings_before:]
        config = unused.pop() if unused else await read_configuration(body)
        if current is None and target.subresource:
            raise errors.not_found(target.resource.group_resource, target.name)
        if current is None:
            return (await applied(request, config, None, len(body))).obj
        revision, decoded = str(current.item.mod_revision), current.decoded
        # To decode an object once more takes less time than to see whether it conforms, which pays for those that are written again.
        size = len(body) + len(current.item.value)
        if decoded is None or not decoded.sound or not decoded.conforms():
            live = await current.load()
            live["metadata"]["resourceVersion"] = revision
            known = decoded.managed if decoded is not None else None
            new, current.noted, current.conforming = await applied(request, config, live, size, known=known)
        else:
            live = {**decoded.obj, "metadata": {**decoded.obj["metadata"], "resourceVersion": revision}}
            new, current.noted, current.conforming = await applied(request, config, live, size, known=decoded.managed, conforming=True)
        return new

    return await update(access, request, transform, may_create=True)


async def applied(
    request: WriteRequest,
    configuration: Configuration,
    live: dict[str, Any] | None,
    size: int,
    *,
    known: Managed | None = None,
    conforming: bool = False,
) -> Applied:
    """What a configuration makes of an object, with its owners: pruned, with defaults, and of the name of the request.

    Args:
        request: who applies what; its options are PatchOptions, and its manager owns what it applies.
        configuration: it is used up.
        live: the object with its resourceVersion; None where there is none. The result shares parts of it.
        size: bytes of both, about.
        known: what the managedFields of `live` say, where that is known.
        conforming: whether pruning and defaults are known to leave `live` as it is.

    Raises:
        StatusError: 400, 409 for conflicts, 422, 500 for a configuration that does not fit the type.
    """
    target, options, manager = request.target, request.options, request.manager
    assert isinstance(options, PatchOptions), "an apply has the options of a patch"
    assert manager is not None, "an apply has a field manager"
    resource = target.resource
    config, repeated = configuration
    _check(config, target)
    paths = target.scale
    if paths is not None:
        check_configuration(SCALE_TYPE, SCALE_KIND, config)
        config = _scaled(config, target, paths)
    again = None
    if paths is None and live is not None and size <= Inline.TRANSFORM:
        again = repeat_configuration(resource, live, config, manager, subresource=target.subresource, known=known)
    if again is not None:
        new, managed = again
    else:
        new, managed = await apply_configuration(
            resource, live, config, manager, subresource=target.subresource, force=bool(options.force), size=size, known=known
        )
    await next_stage()
    _strict(repeated, options, request.warnings)
    if again is not None and conforming and not resource.schema.has_embedded and "ownerReferences" not in new["metadata"]:
        return Applied(new, managed, conforms=True)
    # The entries were read from the store, or written here: they need no check. They keep their place.
    owners = new["metadata"].get("managedFields") if resource.converter is None else None
    if owners:
        new["metadata"]["managedFields"] = []
    # Unknown fields were refused already, where the type does not allow them.
    await conform(new, resource, Decoding(large=size > Inline.PARSE["json"]), field_validation="Ignore", warnings=request.warnings)
    if owners:
        new["metadata"]["managedFields"] = owners
    restored = not resource.typed and _restore_nulls(config, new, outside="metadata")
    check_identity(new, target)
    metadata = new["metadata"]
    if resource.namespaced:
        metadata["namespace"] = target.namespace
    uid = live["metadata"].get("uid") if live is not None else None
    if uid and (given := metadata.get("uid")) and given != uid:
        if not target.view.keeps_metadata:
            raise other_uid(target, given)
        metadata["uid"] = uid
    return Applied(new, managed, conforms=not restored)


async def part_configuration(request: WriteRequest, body: bytes) -> dict[str, Any]:
    """The configuration of an apply to a subresource with a kind of its own.

    Raises:
        StatusError: 400 for a configuration of another kind or name, and for fields that the kind does not have.
    """
    target, options = request.target, request.options
    assert isinstance(options, PatchOptions), "an apply has the options of a patch"
    config, repeated = await read_configuration(body)
    _check(config, target)
    _strict(repeated, options, request.warnings)
    # Defaults have no place in a configuration, which says what its manager owns: the checks run on a copy.
    checked, _ = await read_configuration(body)
    decoding = Decoding(large=len(body) > Inline.PARSE["json"])
    await conform(checked, body_kind(target), decoding, field_validation="Strict", warnings=request.warnings)
    check_identity(config, target)
    return config


async def read_configuration(body: bytes) -> Configuration:
    """Decode the body of an apply.

    Raises:
        StatusError: 400.
    """
    return Configuration(*(await offload(_decode, body) if len(body) > Inline.PARSE["yaml"] else _decode(body)))


def _decode(body: bytes) -> tuple[dict[str, Any], list[str]]:
    """The configuration, which may be JSON, and the strict decoding errors about repeated keys.

    Raises:
        StatusError: 400.
    """
    like_json = body.lstrip()[:1] == b"{"
    if like_json:
        try:
            config, repeated = decode_json_strict(body)
        except ValueError:
            pass  # YAML may begin that way, too
        else:
            return config, decode_yaml_strict(body)[1] if repeated else []
    try:
        config, repeated = decode_yaml_strict(body)
    except ValueError as error:
        # Upstream reads what does not look like JSON once before, for its audit log.
        stage = "decoding patch: error converting YAML to JSON" if like_json else "encoding patch"
        raise errors.bad_request(f"error {stage}: {error}") from error
    if config is None:
        config = {}
    if not isinstance(config, dict):
        problem = f"json: cannot unmarshal {json_type(config)} into Go value of type map[string]interface {{}}"
        raise errors.bad_request(f"error decoding patch: error unmarshaling JSON: while decoding JSON: {problem}")
    return config, repeated


def _check(config: dict[str, Any], target: Resolved) -> None:
    """Refuse a document that is not a configuration of the target.

    Raises:
        StatusError: 400.
    """
    kind = body_kind(target)
    if config.get("apiVersion") != kind.group_version or config.get("kind") != kind.kind:
        raise errors.bad_request(f"invalid object type: {_kind_text(config)}")
    check_metadata(config, kind)
    metadata = config["metadata"]
    if metadata.get("managedFields") is not None:
        raise errors.bad_request("metadata.managedFields must be nil")
    annotations = metadata.get("annotations")
    if annotations is not None:
        annotations.pop(CLUSTER_ANNOTATION, None)


def _kind_text(config: dict[str, Any]) -> str:
    """Group, version and kind as Go prints them; empty where the version is malformed."""
    api_version, kind = config.get("apiVersion"), config.get("kind")
    api_version, kind = (text if isinstance(text, str) else "" for text in (api_version, kind))
    group, slash, version = api_version.rpartition("/")
    return "/, Kind=" if "/" in group else f"{group if slash else ''}/{version}, Kind={kind}"


def _strict(repeated: list[str], options: PatchOptions, warnings: list[str]) -> None:
    """Say what the client wants to hear of repeated keys.

    Raises:
        StatusError: 400 under `Strict`.
    """
    if not repeated or options.field_validation == "Ignore":
        return
    if options.field_validation == "Strict":
        raise errors.bad_request(f"error strict decoding patch: error converting YAML to JSON: {', '.join(repeated)}")
    warnings.extend(warning_lines(repeated))


def _restore_nulls(config: dict[str, Any], obj: dict[str, Any], *, outside: str = "") -> bool:
    """Put back, in place, the nulls of a configuration that were dropped: an apply is refused for those that its schema does not allow.

    The field `outside` is left alone.

    Returns:
        Whether there were any.
    """
    restored = False
    for field, value in config.items():
        if field == outside:
            continue
        if value is None:
            if field not in obj:
                obj[field] = None
                restored = True
        elif isinstance(value, dict) and isinstance(obj.get(field), dict):
            restored |= _restore_nulls(value, obj[field])
    return restored


def _scaled(scale: dict[str, Any], target: Resolved, paths: ScalePaths) -> dict[str, Any]:
    """A configuration of the object that says what a Scale says."""
    value: Any = (scale.get("spec") or {}).get("replicas") or 0
    for field in reversed(paths.replicas):
        value = {field: value}
    metadata = {name: scale["metadata"][name] for name in ("name", "namespace", "resourceVersion", "uid") if scale["metadata"].get(name)}
    resource = target.resource
    return {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": metadata, **value}
