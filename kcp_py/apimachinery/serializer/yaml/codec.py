"""YAML to decoded objects and back. The reader and the writer are imported at their first use: most processes use no YAML."""

from __future__ import annotations

from typing import Any

__all__ = ["decode_yaml", "decode_yaml_strict", "encode_yaml"]


def decode_yaml(body: bytes) -> Any:
    """Decode one YAML document. Of repeated keys the last one counts.

    Raises:
        DecodeError: it is not YAML, cannot be represented in JSON, or exceeds the limits of `decoding`.
    """
    from kcp_py.apimachinery.serializer.yaml import decoding  # noqa: PLC0415

    return decoding.decode(body).value


def decode_yaml_strict(body: bytes) -> tuple[Any, list[str]]:
    """Decode one YAML document, and return the strict decoding errors with it: none, or one that lists all repeated keys.

    Raises:
        DecodeError: it is not YAML, cannot be represented in JSON, or exceeds the limits of `decoding`.
    """
    from kcp_py.apimachinery.serializer.yaml import decoding  # noqa: PLC0415

    decoded = decoding.decode(body)
    return decoded.value, decoded.strict_errors()


def encode_yaml(obj: Any) -> bytes:
    """Encode as sigs.k8s.io/yaml does: keys sorted, lists not indented."""
    from kcp_py.apimachinery.serializer.yaml import encoding  # noqa: PLC0415

    return encoding.encode(obj)
