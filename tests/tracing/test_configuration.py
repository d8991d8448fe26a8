"""The file of `--tracing-config-file`."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.options import OptionsError
from kcp_py.tracing.configuration import TracingConfiguration, read_tracing_configuration

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", TracingConfiguration("localhost:4317", 0), id="defaults"),
        pytest.param("samplingRatePerMillion: 100\n", TracingConfiguration("localhost:4317", 100), id="rate"),
        pytest.param("endpoint: unix:///run/otel.sock\n", TracingConfiguration("unix:///run/otel.sock", 0), id="socket"),
        pytest.param(
            "endpoint: otel.example:4317\nsamplingRatePerMillion: null\n", TracingConfiguration("otel.example:4317", 0), id="host"
        ),
    ],
)
def test_valid(tmp_path: Path, text: str, expected: TracingConfiguration) -> None:
    """Fields have the defaults of kube-apiserver."""
    file = tmp_path / "tracing.yaml"
    file.write_text(HEAD + text, "utf-8")
    assert read_tracing_configuration(file) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[]", "the document is not an object", id="no object"),
        pytest.param("apiVersion: v1\nkind: TracingConfiguration\n", "not a TracingConfiguration", id="version"),
        pytest.param(HEAD + "samplingRatePerMillion: -1\n", "sampling rate must be positive", id="negative"),
        pytest.param(HEAD + "samplingRatePerMillion: 1000001\n", "must be less than or equal to one million", id="too much"),
        pytest.param(HEAD + "samplingRatePerMillion: true\n", "must be an integer", id="type"),
        pytest.param(HEAD + "endpoint: http://otel:4317\n", "unsupported scheme: http", id="scheme"),
        pytest.param(HEAD + "endpoint: 7\n", "endpoint: must be a string", id="endpoint type"),
        pytest.param(HEAD + "sampling: 1\n", 'unknown field "sampling"', id="unknown field"),
        pytest.param("a: [", "--tracing-config-file", id="syntax"),
    ],
)
def test_invalid(tmp_path: Path, text: str, message: str) -> None:
    """Each fault is named with the flag and the file."""
    file = tmp_path / "tracing.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(OptionsError) as refused:
        read_tracing_configuration(file)
    assert message in str(refused.value)
    assert f"--tracing-config-file: {file}" in str(refused.value)


def test_a_missing_file(tmp_path: Path) -> None:
    """The message names it."""
    with pytest.raises(OptionsError, match=r"nothing\.yaml: No such file or directory"):
        read_tracing_configuration(tmp_path / "nothing.yaml")
