"""`TracingConfiguration`: the file of `--tracing-config-file`.

Source: k8s.io/component-base `tracing/api/v1`, k8s.io/apiserver `pkg/server/options/tracing.go`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from kcp_py.apimachinery.serializer.decoding import DecodeError
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from kcp_py.options import OptionsError

FLAG: Final = "--tracing-config-file"
MILLION: Final = 1_000_000
_VERSIONS: Final = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_SCHEMES: Final = ("dns", "unix", "unix-abstract")


class TracingConfiguration(NamedTuple):
    """Where spans go, and of how many requests."""

    endpoint: str = "localhost:4317"
    """Of a collector that speaks OTLP over gRPC, without TLS, as gRPC names targets."""
    sampling_rate_per_million: int = 0
    """How many of a million requests that no trusted caller has decided about are sampled."""


def read_tracing_configuration(path: Path) -> TracingConfiguration:
    """Read the file.

    Raises:
        OptionsError: it cannot be read, or is not a valid TracingConfiguration.
    """
    try:
        content, repeated = decode_yaml_strict(path.read_bytes())
    except OSError as error:
        raise OptionsError(f"{FLAG}: {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise OptionsError(f"{FLAG}: {path}: {error}") from None
    if problems := [*repeated, *_problems(content)]:
        raise OptionsError(f"{FLAG}: {path}: {', '.join(problems)}")
    given = {name: value for name, value in content.items() if value is not None}
    default = TracingConfiguration()
    return TracingConfiguration(
        given.get("endpoint", default.endpoint), given.get("samplingRatePerMillion", default.sampling_rate_per_million)
    )


def _problems(content: Any) -> list[str]:
    if not isinstance(content, dict):
        return ["the document is not an object"]
    if content.get("kind") != "TracingConfiguration" or content.get("apiVersion") not in _VERSIONS:
        return [f"not a TracingConfiguration of {_VERSIONS[0]}"]
    unknown = [f'unknown field "{name}"' for name in content if name not in {"apiVersion", "kind", "endpoint", "samplingRatePerMillion"}]
    rate, endpoint = content.get("samplingRatePerMillion"), content.get("endpoint")
    if rate is not None and (not isinstance(rate, int) or isinstance(rate, bool)):
        unknown.append("samplingRatePerMillion: must be an integer")
    elif rate is not None and rate < 0:
        unknown.append(f"samplingRatePerMillion: Invalid value: {rate}: sampling rate must be positive")
    elif rate is not None and rate > MILLION:
        unknown.append(
            f"samplingRatePerMillion: Invalid value: {rate}: sampling rate per million must be less than or equal to one million"
        )
    if endpoint is not None:
        unknown += _endpoint_problems(endpoint)
    return unknown


def _endpoint_problems(endpoint: Any) -> list[str]:
    if not isinstance(endpoint, str):
        return ["endpoint: must be a string"]
    scheme = urlsplit(endpoint).scheme if "//" in endpoint else "dns"
    if scheme in _SCHEMES:
        return []
    wanted = "Options are none, dns, unix, or unix-abstract."
    return [f'endpoint: Invalid value: "{endpoint}": unsupported scheme: {scheme}.  {wanted}']
