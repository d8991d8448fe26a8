"""Values that programs give are those of their settings."""

from __future__ import annotations

import copy
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kcp_py.options import Options
from kcp_py.options.settings import SETTINGS


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"workers": "2"}, TypeError, "workers is a whole number, and not '2'"),
        ({"workers": True}, TypeError, "workers is a whole number, and not True"),
        ({"workers": 2.0}, TypeError, "workers is a whole number, and not 2.0"),
        ({"workers": -1}, ValueError, "workers is not below zero: -1"),
        ({"request_timeout": "5s"}, TypeError, "request_timeout is a number, and not '5s'"),
        ({"request_timeout": float("nan")}, ValueError, "request_timeout is a finite number, and not nan"),
        ({"request_timeout": -0.5}, ValueError, "request_timeout is not below zero: -0.5"),
        ({"root_directory": "/tmp"}, TypeError, "root_directory is a pathlib.Path, and not '/tmp'"),
        ({"tls_cert_file": "a.pem"}, TypeError, "tls_cert_file is a pathlib.Path or None, and not 'a.pem'"),
        ({"storage": "postgres"}, ValueError, "storage is 'sqlite' or 'memory' or 'etcd', and not 'postgres'"),
        ({"storage": None}, TypeError, "storage is 'sqlite' or 'memory' or 'etcd', and not None"),
        ({"plain_http": 1}, TypeError, "plain_http is True or False, and not 1"),
        ({"controllers": "*"}, TypeError, r"controllers is a sequence of texts, and not a text: controllers=['*']"),
        ({"controllers": ["*", 1]}, TypeError, "controllers is a sequence, each of it a text, and not ['*', 1]"),
    ],
    ids=str,
)
def test_wrong_values_are_refused(settings: dict[str, Any], error: type[Exception], message: str) -> None:
    """The error names the setting, its type, and the value."""
    with pytest.raises(error) as caught:
        Options(**settings)
    assert str(caught.value) == message


def test_right_values_are_taken() -> None:
    """Lists stand for tuples, whole numbers for seconds, and the default of a setting is always one of its values."""
    options = Options(controllers=["*"], request_timeout=5, tls_cert_file=Path("a.pem"), max_connections_per_address=-1)  # type: ignore[arg-type]
    assert options.request_timeout == 5
    # Equal values that are other objects.
    assert Options(**{field.name: _copied(getattr(Options(), field.name)) for field in fields(Options)}) == Options()


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_texts_of_defaults_give_values_of_programs(setting: Any) -> None:
    """What the command line makes of a setting is a value that a program may give."""
    default = getattr(Options(), setting.name)
    if default is not None:
        Options(**{setting.name: setting.kind.parse(setting.kind.render(default))})


def _copied(value: Any) -> Any:
    return copy.deepcopy([value])[0] if not isinstance(value, Path) else Path(str(value))
