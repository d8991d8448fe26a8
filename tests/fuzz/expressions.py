"""Small languages: selectors, JSONPath, CEL, patterns and formats, quantities, times, names, URLs, addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from kcp_py.apimachinery.formats import _FORMATS, find_format
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.fieldselectors import parse_field_selector
from kcp_py.apimachinery.meta.selectors import label_selector_of, parse_label_selector
from kcp_py.apimachinery.meta.table import age_of, human_duration
from kcp_py.apimachinery.meta.timestamps import format_time, normalize_time, parse_time
from kcp_py.apimachinery.quantity import canonical, parse_quantity
from kcp_py.cel.environment import Environment
from kcp_py.cel.errors import CompileError, CostExceededError, EvaluationError
from kcp_py.cel.program import compile_expression
from kcp_py.cel.values import Budget
from kcp_py.golang.addresses import AddressError, parse_address, parse_prefix
from kcp_py.golang.regexp import PatternError, check_pattern, compile_finder, compile_pattern
from kcp_py.golang.urls import UrlError, check_request_uri, parse_url
from kcp_py.logicalcluster.name import InvalidClusterError, is_system, parse_name, parse_path
from kcp_py.options.kinds import parse_duration, render_duration
from kcp_py.schema.jsonpath.parser import compile_path
from kcp_py.schema.rules.compilation import _ENVIRONMENT
from kcp_py.schema.structural.field_paths import FieldPathError
from tests.fuzz.mutation import of_text
from tests.fuzz.target import Target
from tests.schema.reading import declare, find_field

LABELS = ("a=b", "a==b,c!=d", "a in (b, c),!d", "example.com/a notin (x,),b", "a>1,b<2", "x in (),y", "kubernetes.io/name in (a,b,c)")
LABEL_WORDS = ("in", "notin", "(", ")", ",", "=", "==", "!=", "!", ">", "<", " ", "a", "example.com/", "-")
FIELDS = ("metadata.name=a", "metadata.namespace!=b,metadata.name==c", "spec.x=a\\,b\\=c\\\\d", "a=,b!=")
PATHS = (
    ".spec.a.b",
    "{.spec['a']}",
    "$.a..b",
    ".a[0:2:1]",
    ".a[?(@.b=='c')].d",
    ".a[?(@.b>1)]",
    '.a[?(@.b=~"^x")]',
    ".a[*].b",
    ".a[0,1]",
    ".a\\.b/c",
    "{range .a}{.b}{end}",
    "..b..c..*",
)
PATH_WORDS = ("..", ".*", "[*]", "[?(@", "==", "=~", "'", '"', "[-1]", "[::-1]", ")]", "{", "}", "$", "@", "\\.", "range", "end")
CEL = (
    "self.replicas <= self.max",
    "self.items.all(i, i.name != '')",
    "has(self.name) && self.name.matches('^[a-z]+$')",
    "size(self.items) < 10 ? true : false",
    "self.items.exists_one(i, i.count == 1) || !has(self.name)",
    "quantity('1Gi').isGreaterThan(quantity(self.name))",
    "self.map['a'] in ['b', \"c\", r'd']",
    "self.items.map(i, i.count).sum() > 0 && {'a': [1, 2.5, 3u, b'x', null]}.size() == 1",
    "oldSelf.name == self.name",
    "type(self) == type(1)",
    "duration('1h') < duration('61m') && timestamp('2024-01-01T00:00:00Z').getFullYear() > 1",
    "self.name.split(',').join('-').replace('a', 'b').lowerAscii() == ''",
    "optional.of(1).orValue(2) == 1",
    "self.?name.hasValue()",
    "cel.bind(x, self.name, x + x) == ''",
    "'%s %d'.format([self.name, 1]) == ''",
    "url('https://a').getHost() == '' && isIP('::1') && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
    "-9223372036854775808 + 1 < 0 && 1/0 > 1 && 5 % 0 == 1",
)
CEL_WORDS = (
    "self",
    "oldSelf",
    ".",
    "?.",
    "[",
    "]",
    "[?",
    "(",
    ")",
    "{",
    "}",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    "in",
    "?",
    ":",
    ",",
    "'a'",
    '"',
    "'''",
    "b'\\xff'",
    "r'\\'",
    "'\\ud800'",
    "1u",
    "1e9",
    "0x7fffffffffffffff",
    "9223372036854775808",
    "null",
    "true",
    "size(",
    ".all(i, ",
    ".map(i, ",
    ".exists(i, ",
    ".matches('(a*)*b')",
    "dyn(",
    "//",
    "\\u0041",
    ".sum()",
    ".transformMap(k, v, ",
    "string(",
    "int(",
    "bytes(",
    "quantity('1')",
)
CEL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "replicas": {"type": "integer"},
        "max": {"type": "number"},
        "any": {"x-kubernetes-int-or-string": True},
        "items": {
            "type": "array",
            "maxItems": 5,
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
    },
}
CEL_OBJECT: dict[str, Any] = {
    "name": "a",
    "replicas": 1,
    "max": 2.5,
    "items": [{"name": "x", "count": 1}, {"count": 2}],
    "map": {"a": "b"},
    "when": "2024-01-01T00:00:00Z",
    "any": 1,
}
PATTERNS = (
    "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "(a*)*b",
    "(?i)x{1,1000}",
    "\\p{Greek}+\\d",
    "[^\\x00-\\x{10FFFF}]",
    "(?P<n>a|b)|$",
    "a{0,}?b*+",
)
QUANTITIES = ("1", "1.5Gi", "100m", "-0.1", "1e3", "12E", "1E6", "0.000000001", "9223372036854775807", "1Ki", "+5n", "1u")
TIMES = (
    "2024-01-01T00:00:00Z",
    "2024-02-29T23:59:59.123456789+14:00",
    "0001-01-01T00:00:00Z",
    "1h30m",
    "-1.5h",
    "300ms",
    "1d",
    "P3Y",
    "2 weeks",
)
NAMES = ("a", "a-b.c", "example.com/name", "A_b.c", "kube-system", "root:org:team", "a" * 63, "1abc", "*", "")
URLS = (
    "https://a:b@example.com:443/p%20q?x=1&y#f",
    "http://[fe80::1%25eth0]:80/",
    "//h",
    "/a/../b",
    "mailto:x",
    "10.0.0.1",
    "10.0.0.0/8",
    "::ffff:1.2.3.4/120",
    "fe80::1%e",
)
FORMATTED = (
    *TIMES,
    *NAMES,
    *URLS,
    "a@b.c",
    "00:11:22:33:44:55",
    "0b5a1c6e-7c1c-4b0e-8f00-000000000000",
    "978-3-16-148410-0",
    "#fff",
    "rgb(1, 2, 255)",
    "AAE=",
    "4111111111111111",
)


def targets() -> list[Target]:
    return [
        _target("label-selector", LABELS, LABEL_WORDS, _label_selector),
        _target("field-selector", FIELDS, ("\\", ",", "=", "!=", "=="), _field_selector),
        # Each of 64 steps may yield 10,000 values.
        _target("jsonpath", PATHS, PATH_WORDS, _jsonpath, calls_per_byte=10_000),
        _target("cel", CEL, CEL_WORDS, _cel, calls_per_byte=2000),
        _target("pattern", PATTERNS, ("(?:", ")*", "{1000}", "\\", "[", "^", "\\p{", "(?<", "(?=", "\\1"), _pattern),
        _target("format", FORMATTED, (), _format, calls_per_byte=400),
        _target("quantity", QUANTITIES, ("e", "E", "i", "m", "n", "k", "Ki", ".", "-", "+", "0" * 60), _quantity),
        _target("time", TIMES, ("T", "Z", "+", "-", ":", ".", "0", "9", "h", "ms", "µs", "60"), _time),
        _target("name", NAMES, (":", "/", ".", "-", "_", "*", "root", "system:"), _name),
        _target("url", URLS, ("%25", "%", "[", "]", "@", ":", "//", "?", "#", "/", "::", "1.2.3.4"), _url),
        _target(
            "field-path",
            (".name", ".items[0].name", ".map['a']", '.map["a.b"]'),
            ("['", "']", "\\'", "[0]", ".", "items", "map"),
            _field_path,
        ),
    ]


def _target(name: str, seeds: Sequence[str], words: Sequence[str], run: Callable[[str], None], *, calls_per_byte: int = 100) -> Target:
    """A target that reads text: a part of a decoded document or query, which holds no lone surrogates."""
    return Target(
        name=name,
        make=of_text(seeds, words),
        run=lambda data: run(data.decode("utf-8", "replace")),
        seeds=[seed.encode() for seed in seeds],
        calls_per_byte=calls_per_byte,
    )


def _label_selector(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except ValueError as error:
        assert str(error)
        return
    again = parse_label_selector(str(selector))
    assert str(again) == str(selector)
    assert again == selector
    for labels in ({}, {"a": "b"}, {"a": "2", "c": "x"}):
        assert selector.matches(labels) == again.matches(labels)
    expressions = [{"key": key, "operator": "In", "values": [text]} for key in ("a", text)]
    for one in expressions:
        try:
            label_selector_of({"matchExpressions": [one]}).matches({"a": text})
        except ValueError as error:
            assert str(error)


def _field_selector(text: str) -> None:
    try:
        selector = parse_field_selector(text)
    except ValueError as error:
        assert str(error)
        return
    again = parse_field_selector(str(selector))
    # Terms are sorted as they are written, and `==` is written as `=`.
    assert set(again.requirements) == set(selector.requirements)
    selector.matches(lambda field: field)
    selector.requires_exact_match("metadata.name")


def _jsonpath(text: str) -> None:
    try:
        find = compile_path(text)
    except ValueError as error:
        assert str(error)
        return
    nested: Any = {"b": "c", "d": [1, "x", None, True, 1.5]}
    for _ in range(5):
        nested = {"a": [nested, {"b": 1}], "b": nested, "spec": {"a": {"b": [1]}}}
    values: list[Any] = [nested, {}, {"a": None}, []]
    for value in values:
        assert len(find(value)) <= 10_000


@cache
def _environment() -> Environment:
    declared = declare(CEL_SCHEMA)
    assert declared is not None
    return _ENVIRONMENT.with_variables({"self": declared.type, "oldSelf": declared.type})


def _cel(text: str) -> None:
    try:
        program = compile_expression(text, _environment())
    except CompileError as error:
        assert str(error)
        return
    budget = Budget(1_000_000)
    try:
        program.evaluate(budget, CEL_OBJECT, CEL_OBJECT)
    except (EvaluationError, CostExceededError) as error:
        assert str(error)


def _pattern(text: str) -> None:
    try:
        check_pattern(text)
    except PatternError as error:
        assert str(error)
        return
    find, matches = compile_finder(text), compile_pattern(text)
    for value in ("", "a" * 1000, "é\0\n", text):
        assert isinstance(matches(value), bool)
        for _ in zip(find(value), range(100), strict=False):
            pass


def _format(text: str) -> None:
    for name in _FORMATS:
        rule = find_format(name)
        assert rule is not None
        assert isinstance(rule(text), bool), name


def _quantity(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except ValueError as error:
        assert str(error)
        return
    shown = canonical(text)
    assert len(shown) <= len(text) + 40
    assert canonical(shown) == shown
    again = parse_quantity(shown)
    assert (again.value, again.milli, again.nano) == (quantity.value, quantity.milli, quantity.nano)
    assert str(quantity.plus(again).minus(again)) == str(quantity)
    assert isinstance(quantity.approximate, float)
    assert quantity.int64 is None or abs(quantity.int64) < 2**63


def _time(text: str) -> None:
    try:
        moment = parse_time(text)
    except ValueError as error:
        assert str(error)
    else:
        assert parse_time(normalize_time(text)) <= moment
        format_time(moment)
        human_duration(moment)
    age_of(text, 1e9)
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        assert str(error)
    else:
        assert abs(parse_duration(render_duration(seconds)) - seconds) <= 1e-6 + seconds * 1e-9


_RULES: Mapping[str, Callable[[str], list[str]]] = {
    rule.__name__: rule
    for rule in (
        names.dns_subdomain_problems,
        names.dns_label_problems,
        names.dns_1035_label_problems,
        names.path_segment_problems,
        names.path_segment_prefix_problems,
        names.qualified_name_problems,
        names.label_value_problems,
        names.config_key_problems,
    )
}


def _name(text: str) -> None:
    for rule in _RULES.values():
        assert all(rule(text)) or not rule(text)
    if not names.dns_label_problems(text):
        assert not names.dns_subdomain_problems(text)
    for parse in (parse_name, parse_path):
        try:
            parsed = parse(text)
        except InvalidClusterError as error:
            assert str(error)
        else:
            assert parse(str(parsed)) == parsed
    is_system(text)


def _url(text: str) -> None:
    for check in (check_request_uri, parse_url):
        try:
            url = check(text)
        except UrlError as error:
            assert str(error)
        else:
            if url is not None:
                url.parameters()
                str(url), url.hostname, url.port
    for parse in (parse_address, parse_prefix):
        try:
            parsed = parse(text)
        except AddressError as error:
            assert str(error)
        else:
            assert parse(str(parsed)) == parsed


def _field_path(text: str) -> None:
    try:
        find_field(text, CEL_SCHEMA)
    except FieldPathError as error:
        assert str(error)
