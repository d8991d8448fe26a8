"""ConfigMaps, Secrets and ServiceAccounts.

Source: kubernetes `pkg/apis/core/validation` (`ValidateConfigMap*`, `ValidateSecret*`), `pkg/apis/core/v1/{conversion,defaults}.go`,
`pkg/registry/core/{configmap,secret,serviceaccount}`.
"""

from __future__ import annotations

import base64
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required, too_long
from kcp_py.apimachinery.meta.names import byte_length, config_key_problems
from kcp_py.apis.core import tokensecrets
from kcp_py.apis.core.namespaceobjects import DESCRIPTION, DESCRIPTION_ANNOTATION, ROOT_CA, root_ca_data
from kcp_py.golang.base64 import canonical_base64
from kcp_py.registry.strategy import Strategy

MAX_DATA_SIZE: Final = 1024 * 1024
"""Bytes of all values together."""

_REDACTED: Final = "<secret contents redacted>"
_IMMUTABLE: Final = "field is immutable when `immutable` is set"

_MOUNTABLE_SECRETS: Final = "kubernetes.io/enforce-mountable-secrets"
_OPAQUE: Final = "Opaque"
_JSON_KEY_OF_TYPE: Final = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


class ConfigMapStrategy(Strategy):
    """Data under config keys, no key twice, a megabyte together.

    Every write of `kube-root-ca.crt` sets its data back to the certificates of the server. Upstream's controller `root-ca-cert-publisher`
    does so a moment later.
    """

    has_generation = False
    qualifies_finalizers = True

    def __init__(self, root_ca: str = "") -> None:
        """Make the strategy. `root_ca` has the certificates in `kube-root-ca.crt`; without any the ConfigMap is one like all others."""
        self._root_ca = root_ca

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        _canonicalize_bytes(obj, "binaryData")

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        _canonicalize_bytes(obj, "binaryData")
        if self._root_ca and old["metadata"]["name"] == ROOT_CA:
            metadata, annotations = obj["metadata"], obj["metadata"].get("annotations") or {}
            obj["data"] = dict(root_ca_data(self._root_ca))
            if not annotations.get(DESCRIPTION_ANNOTATION):
                metadata["annotations"] = {**annotations, DESCRIPTION_ANNOTATION: DESCRIPTION}

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        data: dict[str, str] = obj.get("data") or {}
        binary: dict[str, str] = obj.get("binaryData") or {}
        problems = []
        for key in data:
            if faults := config_key_problems(key):
                problems += [invalid(f"data[{key}]", key, fault) for fault in faults]
            if key in binary:
                problems.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size = 0
        for key, value in binary.items():
            problems += [invalid(f"binaryData[{key}]", key, fault) for fault in config_key_problems(key)]
            size += _decoded_size(value)
        # A character has at most four bytes: most data need no exact count.
        if size + 4 * sum(map(len, data.values())) > MAX_DATA_SIZE and size + sum(map(byte_length, data.values())) > MAX_DATA_SIZE:
            problems.append(too_long("[]", MAX_DATA_SIZE))
        return problems

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = _immutability_problems(obj, old, ("data", "binaryData"))
        return problems + self.validate(obj)


class SecretStrategy(Strategy):
    """Bytes under config keys; the type is fixed and may ask for keys."""

    has_generation = False
    qualifies_finalizers = True

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        _canonicalize_bytes(obj, "data")
        _fold_string_data(obj)
        if not obj.get("type"):
            obj["type"] = _OPAQUE

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        self.prepare_for_create(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        data: dict[str, str] = obj.get("data") or {}
        problems = []
        size = 0
        for key, value in data.items():
            problems += [invalid(f"data[{key}]", key, problem) for problem in config_key_problems(key)]
            size += _decoded_size(value)
        if size > MAX_DATA_SIZE:
            problems.append(too_long("data", MAX_DATA_SIZE))
        return problems + _type_problems(obj, data)

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = []
        if obj.get("type") != old.get("type"):
            problems.append(invalid("type", obj.get("type"), "field is immutable"))
        return problems + _immutability_problems(obj, old, ("data",)) + self.validate(obj)


class ServiceAccountStrategy(Strategy):
    """References to secrets carry a name and nothing else."""

    has_generation = False
    qualifies_finalizers = True
    return_deleted_object = True

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        if secrets := obj.get("secrets"):
            obj["secrets"] = [{"name": secret["name"]} if secret.get("name") else {} for secret in secrets]

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        self.prepare_for_create(obj)

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        if not _has_annotation(obj, _MOUNTABLE_SECRETS) or (old is not None and _has_annotation(old, _MOUNTABLE_SECRETS)):
            return []
        detail = "deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        return [f"metadata.annotations[{_MOUNTABLE_SECRETS}]: {detail}"]


def _has_annotation(obj: dict[str, Any], name: str) -> bool:
    return name in (obj["metadata"].get("annotations") or {})


def _type_problems(obj: dict[str, Any], data: dict[str, str]) -> list[FieldError]:
    match obj.get("type"):
        case tokensecrets.TYPE:
            if not (obj["metadata"].get("annotations") or {}).get(tokensecrets.ACCOUNT_NAME):
                return [required(f"metadata.annotations[{tokensecrets.ACCOUNT_NAME}]")]
        case str(kind) if (key := _JSON_KEY_OF_TYPE.get(kind)) is not None:
            if key not in data:
                return [required(f"data[{key}]")]
            if (problem := _json_object_problem(base64.b64decode(data[key]))) is not None:
                return [invalid(f"data[{key}]", _REDACTED, problem)]
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return [required("data[username]"), required("data[password]")]
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [required("data[ssh-privatekey]")]
        case "kubernetes.io/tls":
            return [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _json_object_problem(content: bytes) -> str | None:
    if not content:
        return "unexpected end of JSON input"
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError:
        return "invalid character in JSON input"
    if value is None or isinstance(value, dict):
        return None
    name = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {name} into Go value of type map[string]interface {{}}"


def _immutability_problems(obj: dict[str, Any], old: dict[str, Any], members: tuple[str, ...]) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    problems = [] if obj.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return problems + [forbidden(member, _IMMUTABLE) for member in members if (obj.get(member) or {}) != (old.get(member) or {})]


def _fold_string_data(obj: dict[str, Any]) -> None:
    """`stringData` is written, never read: its values win over those of `data`."""
    texts = obj.pop("stringData", None)
    if texts:
        data = obj["data"] = dict(obj.get("data") or {})
        for key, text in texts.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _canonicalize_bytes(obj: dict[str, Any], member: str) -> None:
    """Decode and encode base64 once, so that every stored value has one form.

    Raises:
        StatusError: 400 for a value that is not base64, as upstream's decoder answers.
    """
    values = obj.get(member)
    if not values:
        return
    for key, value in values.items():
        if not isinstance(value, str):
            continue  # the schema reports it
        try:
            values[key] = canonical_base64(value)
        except ValueError as error:
            kind = obj["kind"]
            raise DecodingError(kind, "v1", str(error)) from None


def _decoded_size(text: str) -> int:
    """The number of bytes that a base64 text stands for."""
    return len(text) // 4 * 3 - (2 if text.endswith("==") else 1 if text.endswith("=") else 0)
