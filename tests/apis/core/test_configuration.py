"""ConfigMaps, Secrets and ServiceAccounts obey upstream's rules."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.core.configuration import MAX_DATA_SIZE, ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy


def config_map(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, **members}


def secret(**members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "default"}, **members}


def texts(problems: Any) -> list[str]:
    return [str(problem) for problem in problems]


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)


class TestConfigMap:
    """ConfigMaps."""

    strategy = ConfigMapStrategy()

    def test_keys(self):
        """A key that is not a file name is refused under its own path."""
        assert texts(self.strategy.validate(config_map(data={"a/b": "x", "ok.key": "y"}))) == [
            f'data[a/b]: Invalid value: "a/b": {KEY_RULE}'
        ]

    def test_same_key_twice(self):
        """A key may be in data or in binaryData, not in both."""
        assert texts(self.strategy.validate(config_map(data={"a": "x"}, binaryData={"a": "eA=="}))) == [
            'data[a]: Invalid value: "a": duplicate of key present in binaryData'
        ]

    @pytest.mark.parametrize(("size", "fits"), [(MAX_DATA_SIZE, True), (MAX_DATA_SIZE + 1, False)])
    def test_size(self, size, fits):
        """A megabyte of values fits, decoded bytes counting, a byte more does not."""
        problems = self.strategy.validate(config_map(data={"a": "x" * (size - 2)}, binaryData={"b": "eHg="}))
        assert texts(problems) == ([] if fits else ["[]: Too long: may not be more than 1048576 bytes"])

    def test_immutable(self):
        """Once immutable, always so, with its data."""
        old = config_map(data={"a": "x"}, immutable=True)
        assert texts(self.strategy.validate_update(config_map(data={"a": "y"}), old)) == [
            "immutable: Forbidden: field is immutable when `immutable` is set",
            "data: Forbidden: field is immutable when `immutable` is set",
        ]
        assert self.strategy.validate_update(config_map(data={"a": "x"}, immutable=True), old) == []

    def test_binary_data_has_one_form(self):
        """Line breaks in base64 are dropped when the object is stored."""
        obj = config_map(binaryData={"a": "eHh4\neHh4"})
        self.strategy.prepare_for_create(obj)
        assert obj["binaryData"] == {"a": "eHh4eHh4"}

    @pytest.mark.parametrize(("text", "position"), [("!!!!", 0), ("eHh4*", 4), ("eHg", 0), ("eHh4eH", 4)])
    def test_not_base64(self, text, position):
        """A value that is not base64 is refused as the decoder of upstream does."""
        with pytest.raises(StatusError) as raised:
            self.strategy.prepare_for_create(config_map(binaryData={"a": text}))
        assert raised.value.code == 400
        assert raised.value.message == (
            f'ConfigMap in version "v1" cannot be handled as a ConfigMap: illegal base64 data at input byte {position}'
        )


class TestSecret:
    """Secrets."""

    strategy = SecretStrategy()

    def test_string_data_is_folded_into_data(self):
        """stringData is written, wins, and is never stored; the type is Opaque by default."""
        obj = secret(data={"a": encoded(b"old"), "b": encoded(b"kept")}, stringData={"a": "nü"})
        self.strategy.prepare_for_create(obj)
        assert obj == secret(data={"a": encoded("nü".encode()), "b": encoded(b"kept")}, type="Opaque")

    def test_type_is_fixed(self):
        """The type cannot be changed, not even by leaving it out."""
        old = secret(type="kubernetes.io/basic-auth", data={"username": "eA=="})
        new = secret(data={"username": "eA=="})
        self.strategy.prepare_for_update(new, old)
        assert texts(self.strategy.validate_update(new, old)) == ['type: Invalid value: "Opaque": field is immutable']

    @pytest.mark.parametrize(
        ("kind", "data", "wanted"),
        [
            ("Opaque", {}, []),
            ("example.com/own", {}, []),
            ("kubernetes.io/service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]: Required value"]),
            ("kubernetes.io/dockercfg", {}, ["data[.dockercfg]: Required value"]),
            ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": b"{}"}, []),
            (
                "kubernetes.io/dockerconfigjson",
                {".dockerconfigjson": b""},
                ['data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": unexpected end of JSON input'],
            ),
            ("kubernetes.io/basic-auth", {}, ["data[username]: Required value", "data[password]: Required value"]),
            ("kubernetes.io/basic-auth", {"password": b""}, []),
            ("kubernetes.io/ssh-auth", {"ssh-privatekey": b""}, ["data[ssh-privatekey]: Required value"]),
            ("kubernetes.io/tls", {"tls.crt": b"x"}, ["data[tls.key]: Required value"]),
        ],
    )
    def test_keys_of_types(self, kind, data, wanted):
        """Types require their keys, and messages never show the values."""
        obj = secret(type=kind, data={key: encoded(value) for key, value in data.items()})
        assert texts(self.strategy.validate(obj)) == wanted

    def test_size(self):
        """A megabyte of decoded bytes is the limit."""
        assert self.strategy.validate(secret(data={"a": encoded(b"x" * MAX_DATA_SIZE)})) == []
        assert texts(self.strategy.validate(secret(data={"a": encoded(b"x" * (MAX_DATA_SIZE + 1))}))) == [
            "data: Too long: may not be more than 1048576 bytes"
        ]


def test_service_account_keeps_only_names_of_secrets():
    """References to secrets are stored without anything but the name."""
    obj: dict[str, Any] = {"secrets": [{"name": "a", "namespace": "x", "uid": "1"}, {}]}
    ServiceAccountStrategy().prepare_for_create(obj)
    assert obj["secrets"] == [{"name": "a"}, {}]


def test_service_account_warns_of_a_deprecated_annotation_once():
    """Who sets the annotation is told that it is deprecated; who leaves it as it was is not."""
    strategy, annotation = ServiceAccountStrategy(), "kubernetes.io/enforce-mountable-secrets"
    obj: dict[str, Any] = {"metadata": {"name": "a", "annotations": {annotation: "true"}}}
    warning = f"metadata.annotations[{annotation}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
    assert strategy.warnings(obj, None) == [warning]
    assert strategy.warnings(obj, {"metadata": {"name": "a"}}) == [warning]
    assert strategy.warnings(obj, obj) == []
    assert strategy.warnings({"metadata": {"name": "a"}}, None) == []
