"""Named formats: upstream's unit tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.apimachinery.meta import names
from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.format import FORMAT
from kcp_py.cel.libraries.optionals import OPTIONALS
from kcp_py.cel.values import NONE, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]

VALID = {
    "dns1123Label": "my-label-name",
    "dns1123Subdomain": "apiextensions.k8s.io",
    "dns1035Label": "my-label-name",
    "qualifiedName": "apiextensions.k8s.io/v1beta1",
    "dns1123LabelPrefix": "my-label-prefix-",
    "dns1123SubdomainPrefix": "mysubdomain.prefix.-",
    "dns1035LabelPrefix": "my-label-prefix-",
    "labelValue": "my-cool-label-Value",
    "uri": "http://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "byte": "aGVsbG8=",
    "date": "2021-01-01",
    "datetime": "2021-01-01T00:00:00Z",
}


@pytest.mark.parametrize(("name", "text"), VALID.items())
def test_valid(evaluate: Evaluate, name: str, text: str) -> None:
    """A string of the format has no list of problems; the format is found by its name too."""
    assert evaluate(f"format.{name}().validate(x)", FORMAT, OPTIONALS, x=text) is NONE
    assert evaluate(f"format.named('{name}').value() == format.{name}()", FORMAT, OPTIONALS) is True
    assert evaluate(f"!format.{name}().validate('').hasValue()", FORMAT, OPTIONALS) is (name == "labelValue")
    other = "date" if name != "date" else "uri"
    assert evaluate(f"format.{name}() == format.{other}()", FORMAT, OPTIONALS) is False


SPACE = "contains a space"
INVALID = {
    "dns1123Label": (SPACE, names.dns_label_problems(SPACE)),
    "dns1123Subdomain": (SPACE, names.dns_subdomain_problems(SPACE)),
    "dns1035Label": (SPACE, names.dns_1035_label_problems(SPACE)),
    "qualifiedName": (SPACE, names.qualified_name_problems(SPACE)),
    "dns1123LabelPrefix": (f"{SPACE}-", names.dns_label_problems(SPACE)),
    "dns1123SubdomainPrefix": (f"{SPACE}-", names.dns_subdomain_problems(SPACE)),
    "dns1035LabelPrefix": (f"{SPACE}-", names.dns_1035_label_problems(SPACE)),
    "labelValue": ("my-cool-label-Value!!\n\n!!!", names.label_value_problems("!")),
    "uri": ("../relative", ['parse "../relative": invalid URI for request']),
    "uuid": ("123", ["does not match the UUID format"]),
    "byte": ("aGVsbG8", ["invalid base64"]),
    "date": ("2020-01-32", ["invalid date"]),
    "datetime": ("2020-01-32T00:00:00Z", ["invalid datetime"]),
}


@pytest.mark.parametrize(("name", "text", "problems"), [(name, *case) for name, case in INVALID.items()])
def test_invalid(evaluate: Evaluate, name: str, text: str, problems: list[str]) -> None:
    """The problems are those that the API itself tells."""
    assert problems
    assert evaluate(f"format.{name}().validate(x)", FORMAT, OPTIONALS, x=text) == Optional(problems)


def test_wording(evaluate: Evaluate) -> None:
    """One message in full, as a rule would join it."""
    text = "format.dns1123Label().validate('A').value()[0]"
    assert evaluate(text, FORMAT, OPTIONALS) == (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
        "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    )


def test_unknown_formats(evaluate: Evaluate) -> None:
    """A format that is not there is no value by its name, and no function."""
    assert evaluate("format.named('unknown').hasValue()", FORMAT, OPTIONALS) is False
    with pytest.raises(CompileError, match="undeclared reference"):
        evaluate("format.unknown()", FORMAT, OPTIONALS)


def test_other_types(evaluate: Evaluate) -> None:
    """Only strings are validated."""
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate("format.date().validate(x)", FORMAT, OPTIONALS, x=1)
