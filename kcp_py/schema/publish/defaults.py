"""Defaults of built-in models in v3: the zero value of a field that is not a pointer in Go; a few fields are marked with another default.

What else upstream's server fills in, it does by code and does not publish.

Source: kube-openapi `pkg/generators/openapi.go` (`mustEnforceDefault`); the `+default` markers of k8s.io/api.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kcp_py.bootstrap.wire import message_fields

_ZEROS: Final[Mapping[str, Any]] = {"bool": False, "double": 0, "int32": 0, "int64": 0, "string": ""}
_NO_NAME: Final = {"name": ""}
_ISCSI: Final = {"iscsiInterface": "default"}
_RBD: Final = {"keyring": "/etc/ceph/keyring", "pool": "rbd", "user": "admin"}
_SCALE_IO: Final = {"fsType": "xfs", "storageMode": "ThinProvisioned"}
_TCP: Final = {"protocol": "TCP"}
_CORE: Final[Mapping[str, Mapping[str, Any]]] = {
    "AzureDiskVolumeSource": {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False},
    "ConfigMapEnvSource": _NO_NAME,
    "ConfigMapKeySelector": _NO_NAME,
    "ConfigMapProjection": _NO_NAME,
    "ConfigMapVolumeSource": _NO_NAME,
    "ContainerPort": _TCP,
    "FileKeySelector": {"optional": False},
    "GRPCAction": {"service": ""},
    "ISCSIPersistentVolumeSource": _ISCSI,
    "ISCSIVolumeSource": _ISCSI,
    "LocalObjectReference": _NO_NAME,
    "RBDPersistentVolumeSource": _RBD,
    "RBDVolumeSource": _RBD,
    "ReplicationControllerSpec": {"minReadySeconds": 0, "replicas": 1},
    "ScaleIOPersistentVolumeSource": _SCALE_IO,
    "ScaleIOVolumeSource": _SCALE_IO,
    "SecretEnvSource": _NO_NAME,
    "SecretKeySelector": _NO_NAME,
    "SecretProjection": _NO_NAME,
    "ServicePort": _TCP,
}
_MARKED: Final[Mapping[str, Mapping[str, Any]]] = {
    **{f"io.k8s.api.core.v1.{kind}": defaults for kind, defaults in _CORE.items()},
    "io.k8s.api.autoscaling.v1.ScaleSpec": {"replicas": 0},
    **{f"io.k8s.api.certificates.{version}.PodCertificateRequestSpec": {"maxExpirationSeconds": 86400} for version in ("v1", "v1beta1")},
    **{f"io.k8s.api.resource.{version}.DeviceToleration": {"operator": "Equal"} for version in ("v1", "v1beta1", "v1beta2")},
    "io.k8s.api.scheduling.v1beta1.PodGroupSpec": {"disruptionMode": {"single": {}}},
}
"""What the markers say that the types do not."""


def with_published_defaults(name: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A model of v3 with the defaults that upstream publishes, in the place of those that it has.

    Args:
        name: of the model, as of the message.
        schema: with references to other models.
    """
    try:
        kinds = dict(_kinds(name))
    except KeyError:
        # Kinds of kcp, whose Go types are not known here.
        return schema
    if not kinds or "properties" not in schema:
        return schema
    marked = _MARKED.get(name, {})
    properties = {
        field: {**child, "default": marked[field]} if field in marked else _with_default(child, *kinds.get(field, ("", "pointer")))
        for field, child in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def _kinds(message: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """JSON name -> type and rule, of a message's own fields and of those that it inlines."""
    for field, kind, rule in message_fields(message).values():
        if rule == "inline":
            yield from _kinds(kind)
        else:
            yield field, (kind, rule)


def _with_default(schema: Mapping[str, Any], kind: str, rule: str) -> Mapping[str, Any]:
    schema = {key: value for key, value in schema.items() if key != "default"}
    if "." in kind:
        # What has a form of its own in JSON, such as a time, is null when it is zero; lists and maps have no default either.
        absent = kind[:2] in {"[]", "{}"} or rule in {"pointer", "null"} or not (fields := message_fields(kind))
        return schema if absent or "items" in {row[2] for row in fields.values()} else _referring(schema)
    return {**schema, "default": _ZEROS[kind]} if kind in _ZEROS and not rule else schema


def _referring(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A reference with a default: a `$ref` must stand alone, so it moves into `allOf`."""
    rest = {key: value for key, value in schema.items() if key != "$ref"}
    return {"allOf": [{"$ref": schema["$ref"]}], **rest, "default": {}} if "$ref" in schema else {**rest, "default": {}}
