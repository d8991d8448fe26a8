"""The environment that rules of CustomResourceDefinitions see."""

from __future__ import annotations

import json

import pytest

from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError
from kcp_py.cel.generator import generate
from kcp_py.cel.libraries.jsonpatch import JSONPATCH
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import DYN
from kcp_py.cel.values import Budget
from tests.corpus import TABLES, needs_corpus

ENVIRONMENT = Environment({"self": DYN, "oldSelf": DYN}, KUBERNETES)
RULES = TABLES / "crd-rules" / "cel_rules.jsonl"


@needs_corpus
def test_every_rule_of_real_definitions_compiles() -> None:
    """Each rule that a published definition has is accepted, and code is made of it."""
    rules = [json.loads(line)["rule"] for line in RULES.read_text().splitlines()]
    assert len(rules) >= 1250
    for rule in rules:
        program = compile_expression(rule, ENVIRONMENT)
        generate(program.checked, program.variables)


VALUES: dict[str, tuple[object, object]] = {
    "self.split(',').map(s, s.trim()).all(s, isIP(s) || isCIDR(s))": ("10.0.0.1, 10.0.0.0/8", True),
    "self.all(x, self.exists_one(y, x == y))": (["a", "b"], True),
    "quantity(self.limit).compareTo(quantity(self.request)) >= 0": ({"limit": "1Gi", "request": "900Mi"}, True),
    "!format.dns1123Subdomain().validate(self).hasValue()": ("a.example", True),
    "isURL(self) && url(self).getScheme() in ['http', 'https']": ("https://a.example/", True),
    "self.items.map(i, i.name).isSorted() && self.items.sum() == 0": ({"items": []}, True),
    "self.transformList(i, v, i + v).sort() == [1, 3]": ([1, 2], True),
    "self.?a.?b.orValue('none').upperAscii()": ({"a": {}}, "NONE"),
    "semver(self, true).isLessThan(semver('2.0.0'))": ("v1.2", True),
    "self.find('[0-9]+') + ':%d'.format([self.indexOf('1')])": ("ab12", "12:2"),
    "self.first().orValue(0) + self.last().orValue(0)": ([1, 2, 3], 4),
    "self.indexOf('b') + self.lastIndexOf('b')": (["a", "b"], 2),
    "cidr(self).ip().family() == 4 && string(cidr(self)) == self": ("10.0.0.0/8", True),
    "sets.contains(self, ['a']) && self.distinct().size() == 2": (["a", "b", "b"], True),
}


@pytest.mark.parametrize(("rule", "value", "wanted"), [(rule, *case) for rule, case in VALUES.items()])
def test_libraries_work_together(rule: str, value: object, wanted: object) -> None:
    """Functions of one name from several libraries are distinguished by their arguments."""
    assert compile_expression(rule, ENVIRONMENT).evaluate(Budget(1_000_000), value, None) == wanted


def test_what_is_not_there() -> None:
    """Schema rules have no mathematics, no base64, no JSON patches and no authorizer."""
    for text in ("math.greatest(1, 2)", "base64.encode(b'a')", "jsonpatch.escapeKey('a')", "authorizer.path('/x')", "'a'.reverse()"):
        with pytest.raises(CompileError):
            compile_expression(text, ENVIRONMENT)
    assert JSONPATCH not in KUBERNETES
