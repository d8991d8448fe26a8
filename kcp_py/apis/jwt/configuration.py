"""The file of `--authentication-config`: an `AuthenticationConfiguration` of apiserver.config.k8s.io, decoded strictly.

Source: k8s.io/apiserver `pkg/apis/apiserver/v1/types.go`, kubernetes `pkg/kubeapiserver/options/authentication.go`. The three versions have
the same fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.apis.typed.values import MismatchError
from kcp_py.golang.json import go_json
from kcp_py.golang.quoting import go_quote
from kcp_py.golang.types import json_type

GROUP: Final = "apiserver.config.k8s.io"
VERSIONS: Final = ("v1", "v1beta1", "v1alpha1")
KIND: Final = "AuthenticationConfiguration"

_SCHEME: Final = "pkg/runtime/scheme.go:111"
_TYPE_META: Final = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


class ConfigurationError(ValueError):
    """The file cannot be decoded. `str()` is upstream's message."""


class _Text(NamedTuple):
    """A string of a Go type."""

    go: str = "string"


class _Flag(NamedTuple):
    """A boolean."""

    go: str = "bool"


class _List(NamedTuple):
    """A list."""

    element: _Text | _Struct

    @property
    def go(self) -> str:
        """The name of the Go type."""
        return f"[]{self.element.go}"


class _Struct(NamedTuple):
    """A structure: field -> type."""

    name: str
    fields: Mapping[str, _Text | _Flag | _List | _Struct]

    @property
    def go(self) -> str:
        """The name of the Go type."""
        return f"v1.{self.name}"


_Type = _Text | _Flag | _List | _Struct

_TEXT: Final = _Text()
_ISSUER: Final = _Struct(
    "Issuer",
    {
        "url": _TEXT,
        "discoveryURL": _TEXT,
        "certificateAuthority": _TEXT,
        "audiences": _List(_TEXT),
        "audienceMatchPolicy": _Text("v1.AudienceMatchPolicyType"),
        "egressSelectorType": _Text("v1.EgressSelectorType"),
    },
)
_PREFIXED: Final = _Struct("PrefixedClaimOrExpression", {"claim": _TEXT, "prefix": _TEXT, "expression": _TEXT})
_MAPPINGS: Final = _Struct(
    "ClaimMappings",
    {
        "username": _PREFIXED,
        "groups": _PREFIXED,
        "uid": _Struct("ClaimOrExpression", {"claim": _TEXT, "expression": _TEXT}),
        "extra": _List(_Struct("ExtraMapping", {"key": _TEXT, "valueExpression": _TEXT})),
    },
)
_CLAIM_RULE: Final = _Struct("ClaimValidationRule", {"claim": _TEXT, "requiredValue": _TEXT, "expression": _TEXT, "message": _TEXT})
_USER_RULE: Final = _Struct("UserValidationRule", {"expression": _TEXT, "message": _TEXT})
_AUTHENTICATOR: Final = _Struct(
    "JWTAuthenticator",
    {
        "issuer": _ISSUER,
        "claimValidationRules": _List(_CLAIM_RULE),
        "claimMappings": _MAPPINGS,
        "userValidationRules": _List(_USER_RULE),
    },
)
_ANONYMOUS: Final = _Struct(
    "AnonymousAuthConfig", {"enabled": _Flag(), "conditions": _List(_Struct("AnonymousAuthCondition", {"path": _TEXT}))}
)
_CONFIGURATION: Final = _Struct(KIND, {"apiVersion": _TEXT, "kind": _TEXT, "jwt": _List(_AUTHENTICATOR), "anonymous": _ANONYMOUS})


def decode_configuration(data: bytes) -> Mapping[str, Any]:
    """Decode the file: YAML or JSON.

    Returns:
        The document. Fields that are null are left out.

    Raises:
        ConfigurationError: the document is of another kind, or has a field of the wrong type, or an unknown or repeated field.
    """
    if not data:
        raise ConfigurationError("empty config data")
    try:
        document, problems = decode_yaml_strict(data)
    except DecodeError as error:
        raise ConfigurationError(str(error)) from None
    if not isinstance(document, dict):
        detail = f"json: cannot unmarshal {json_type(document)} into Go value of type {_TYPE_META}"
        raise ConfigurationError(f"couldn't get version/kind; json parse error: {detail}")
    _check_kind(document)
    unknown: list[str] = []
    try:
        decoded = _structure(document, _CONFIGURATION, "", unknown)
    except MismatchError as mismatch:
        raise ConfigurationError(str(mismatch)) from None
    problems = [*problems, *(f'unknown field "{path}"' for path in unknown)]
    if problems:
        raise ConfigurationError(f"strict decoding error: {', '.join(problems)}")
    return decoded


def _check_kind(document: Mapping[str, Any]) -> None:
    version, kind = document.get("apiVersion") or "", document.get("kind") or ""
    if not isinstance(version, str) or not isinstance(kind, str):
        raise ConfigurationError("couldn't get version/kind; apiVersion and kind must be strings")
    if not kind or not version:
        raise ConfigurationError(f"Object '{'apiVersion' if kind else 'Kind'}' is missing in '{go_json(document, sort=True)}'")
    if kind != KIND or version not in {f"{GROUP}/{one}" for one in VERSIONS}:
        raise ConfigurationError(f'no kind {go_quote(kind)} is registered for version {go_quote(version)} in scheme "{_SCHEME}"')


def _structure(value: Any, struct: _Struct, path: str, unknown: list[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MismatchError(json_type(value), struct.go)
    decoded: dict[str, Any] = {}
    for name, member in value.items():
        here = f"{path}.{name}" if path else name
        kind = struct.fields.get(name)
        if kind is None:
            unknown.append(here)
        elif member is not None:
            try:
                decoded[name] = _value(member, kind, here, unknown)
            except MismatchError as mismatch:
                mismatch.struct = mismatch.struct or struct.name
                mismatch.path.insert(0, name)
                raise
    return decoded


def _value(value: Any, kind: _Type, path: str, unknown: list[str]) -> Any:
    match kind:
        case _Struct():
            return _structure(value, kind, path, unknown)
        case _List():
            if not isinstance(value, list):
                raise MismatchError(json_type(value), kind.go)
            element = kind.element
            zero: Any = "" if isinstance(element, _Text) else {}
            return [zero if one is None else _value(one, element, f"{path}[{index}]", unknown) for index, one in enumerate(value)]
        case _Flag():
            wanted: type = bool
        case _Text():
            wanted = str
    if type(value) is not wanted:
        raise MismatchError(json_type(value), kind.go)
    return value
