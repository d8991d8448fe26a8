"""The language's own conformance tables (cel-spec), as far as they speak of what Kubernetes turns on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from kcp_py.cel import checker
from kcp_py.cel.declarations import Function, Library, Overload
from kcp_py.cel.environment import Environment
from kcp_py.cel.equality import equal
from kcp_py.cel.errors import CompileError, EvaluationError
from kcp_py.cel.libraries.kubernetes import KUBERNETES
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    opaque,
    type_of,
    type_parameter,
)
from kcp_py.cel.values import BoolKey, Budget, Duration, Timestamp, TypeValue, UInt
from tests.cel.textproto import Message, read
from tests.corpus import CORPUS

FOLDER = "tables/cel-spec/tests/simple/testdata"
LIBRARIES = KUBERNETES

# Whole files that Kubernetes has no use for, and why.
EXCLUDED_FILES = {
    "bindings_ext": "Kubernetes does not turn cel.bind on",
    "block_ext": "cel.@block is made by an optimiser that Kubernetes does not run",
    "encoders_ext": "Kubernetes does not turn the encoders extension on",
    "enums": "values of protobuf enums; JSON has none",
    "math_ext": "Kubernetes does not turn the math extension on",
    "proto2": "messages of protobuf; JSON has none",
    "proto2_ext": "extensions of protobuf messages; JSON has none",
    "proto3": "messages of protobuf; JSON has none",
    "unknowns": "the file is empty",
    "wrappers": "wrapper messages of protobuf; JSON has none",
}
# What excludes a test wherever it stands, and why.
EXCLUDED_CONTENT = {
    r"TestAllTypes|GlobalEnum|NestedEnum": "messages of protobuf; JSON has none",
    r"google\.protobuf\.\w*(Value|Any|Struct)\b|NullValue": "wrapper and JSON messages of protobuf; values are plain JSON here",
    r"google\.protobuf\.(Timestamp|Duration) *\{": "messages of protobuf; JSON has none",
}
UNCHECKED = "has no type, and Kubernetes evaluates only what has one"
EXACT = "expects a comparison as doubles; cel-go compares exactly since"
QUOTED = "Kubernetes does not turn the syntax of quoted fields on"
FORMAT = "version 4 of the strings extension formats otherwise; Kubernetes has version 2, with the numbers of a locale and quoted strings"
RANGE = "cel-go gives -1 for a start behind the end"
NETWORK = "Kubernetes allows no IPv4 address inside IPv6"
# Single tests, or all of one section, and why.
EXCLUDED_TESTS = {
    "basic/functions/unbound_is_runtime_error": UNCHECKED,
    "basic/variables/unbound_is_runtime_error": UNCHECKED,
    "comparisons/eq_literal/eq_list_elem_mixed_types": UNCHECKED,
    "comparisons/eq_literal/eq_mixed_types": UNCHECKED,
    "comparisons/eq_literal/not_eq_list_length": UNCHECKED,
    "comparisons/gt_literal/not_gt_dyn_big_double_int": EXACT,
    "comparisons/gte_literal/gte_dyn_int_big_lossy_double": EXACT,
    "comparisons/lt_literal/not_lt_dyn_int_big_lossy_double": EXACT,
    "comparisons/lte_literal/lte_dyn_big_double_int": EXACT,
    "comparisons/ne_literal/ne_mixed_types": UNCHECKED,
    "fields/quoted_map_fields": QUOTED,
    "logic/AND/short_circuit_type_left": UNCHECKED,
    "logic/AND/short_circuit_type_right": UNCHECKED,
    "logic/conditional/mixed_type": UNCHECKED,
    "logic/OR/short_circuit_type_left": UNCHECKED,
    "logic/OR/short_circuit_type_right": UNCHECKED,
    "parse/receiver_function_names": UNCHECKED,
    "network_ext/ipv4/ipv4_equals_ipv6": NETWORK,
    "network_ext/ipv4/ipv4_not_equals_ipv6": NETWORK,
    "string_ext/format/NaN support for decimal": FORMAT,
    "string_ext/format/NaN support for scientific notation": FORMAT,
    "string_ext/format/default precision for fixed-point clause with int": FORMAT,
    "string_ext/format/default precision for fixed-point clause with uint": FORMAT,
    "string_ext/format/default precision for scientific notation": FORMAT,
    "string_ext/format/default precision for scientific notation with int": FORMAT,
    "string_ext/format/default precision for scientific notation with uint": FORMAT,
    "string_ext/format/dyntype NaN/infinity support": FORMAT,
    "string_ext/format/dyntype support for lists": FORMAT,
    "string_ext/format/dyntype support for maps": FORMAT,
    "string_ext/format/dyntype support for scientific notation": FORMAT,
    "string_ext/format/list support for string": FORMAT,
    "string_ext/format/map support (all key types)": FORMAT,
    "string_ext/format/map support for string": FORMAT,
    "string_ext/format/negative infinity support for decimal": FORMAT,
    "string_ext/format/negative infinity support for fixed-point": FORMAT,
    "string_ext/format/negative infinity support for scientific notation": FORMAT,
    "string_ext/format/positive infinity support for decimal": FORMAT,
    "string_ext/format/positive infinity support for fixed-point": FORMAT,
    "string_ext/format/positive infinity support for scientific notation": FORMAT,
    "string_ext/format/scientific notation formatting clause": FORMAT,
    "string_ext/format/scientific notation formatting clause in a string variable": FORMAT,
    "string_ext/value_errors/indexof_out_of_range": RANGE,
    "string_ext/value_errors/lastindexof_out_of_range": RANGE,
    "string_ext/reverse": "version 3 of the strings extension; Kubernetes has version 2",
    "timestamps/duration_converters/get_milliseconds": "cel-go counts the milliseconds of the whole duration, as of the other units",
}


class Case(NamedTuple):
    """One test of the tables."""

    name: str
    test: Message


def cases() -> Iterator[Case]:
    """All of them, with the names of their files and sections."""
    if CORPUS is None:
        return
    for path in sorted((CORPUS / FOLDER).glob("*.textproto")):
        if path.stem not in EXCLUDED_FILES:
            for section in read(path.read_text()).get("section", []):
                for test in section.get("test", []):
                    yield Case(f"{path.stem}/{section['name'][0].decode()}/{test['name'][0].decode()}", test)


def exclusion(case: Case) -> str | None:
    """Why a test is left out."""
    if "container" in case.test and (case.name.startswith("namespace/") or "container" in case.name):
        return "Kubernetes sets no container"
    content = repr(case.test)
    reasons = [reason for pattern, reason in EXCLUDED_CONTENT.items() if re.search(pattern, content)]
    section = case.name.rpartition("/")[0]
    return EXCLUDED_TESTS.get(case.name) or EXCLUDED_TESTS.get(section) or next(iter(reasons), None)


def value_of(message: Message) -> Any:
    """A `cel.expr.Value`."""
    ((kind, (content,)),) = message.items()
    match kind:
        case "null_value":
            return None
        case "bool_value":
            return content == "true"
        case "int64_value":
            return int(content, 0)
        case "uint64_value":
            return UInt(int(content, 0))
        case "double_value":
            return float(content)
        case "string_value":
            return content.decode()
        case "bytes_value":
            return content
        case "type_value":
            return content.decode()
        case "list_value":
            return [value_of(item) for item in content.get("values", [])]
        case "map_value":
            return {key_of(entry["key"][0]): value_of(entry["value"][0]) for entry in content.get("entries", [])}
        case "object_value":
            return object_of(content)
        case _:
            raise AssertionError(kind)


def key_of(message: Message) -> Any:
    """A value as the key of a map."""
    value = value_of(message)
    return BoolKey(value) if type(value) is bool else value


def object_of(message: Message) -> Any:
    """A timestamp or duration, which the tables write as messages."""
    ((kind, (content,)),) = message.items()
    nanoseconds = int(content.get("seconds", ["0"])[0]) * 1_000_000_000 + int(content.get("nanos", ["0"])[0])
    return {"Timestamp": Timestamp, "Duration": Duration}[kind.rpartition(".")[2]](nanoseconds)


def declared_type(message: Message) -> Type:
    """A `cel.expr.Type`."""
    ((kind, (content,)),) = message.items()
    match kind:
        case "primitive":
            return {"BOOL": BOOL, "INT64": INT, "UINT64": UINT, "DOUBLE": DOUBLE, "STRING": STRING, "BYTES": BYTES}[content]
        case "well_known":
            return {"TIMESTAMP": TIMESTAMP, "DURATION": DURATION}[content]
        case "message_type":
            return {b"google.protobuf.Timestamp": TIMESTAMP, b"google.protobuf.Duration": DURATION}[content]
        case "list_type":
            return list_of(declared_type(content["elem_type"][0]) if content else DYN)
        case "map_type":
            return map_of(declared_type(content["key_type"][0]), declared_type(content["value_type"][0])) if content else map_of(DYN, DYN)
        case "type_param":
            return type_parameter(content.decode())
        case "type":
            return type_of(declared_type(content) if content else DYN)
        case "abstract_type":
            return opaque(content["name"][0].decode(), *map(declared_type, content.get("parameter_types", [])))
        case "dyn":
            return DYN
        case "null":
            return NULL
        case _:
            raise AssertionError(kind)


def environment_of(test: Message) -> Environment:
    """What a test declares."""
    variables: dict[str, Type] = {}
    functions: list[Function] = []
    for declaration in test.get("type_env", []):
        name = declaration["name"][0].decode()
        if "ident" in declaration:
            variables[name] = declared_type(declaration["ident"][0]["type"][0])
        else:
            overloads = tuple(
                Overload(
                    overload["overload_id"][0].decode(),
                    tuple(map(declared_type, overload.get("params", []))),
                    declared_type(overload["result_type"][0]),
                )
                for overload in declaration["function"][0]["overloads"]
            )
            functions.append(Function(name, overloads))
    for binding in test.get("bindings", []):
        variables.setdefault(binding["key"][0].decode(), DYN)
    return Environment(variables, [*libraries(), Library("declared", functions=tuple(functions))])


@cache
def libraries() -> tuple[Library, ...]:
    """What Kubernetes turns on of what the tables ask for."""
    return LIBRARIES


def run(test: Message) -> Any:
    """The value of a test's expression."""
    environment = environment_of(test)
    program = compile_expression(test["expr"][0].decode(), environment)
    bound = {binding["key"][0].decode(): value_of(binding["value"][0]["value"][0]) for binding in test.get("bindings", [])}
    return program.evaluate(Budget(1_000_000), *(bound.get(name) for name in program.variables))


def is_same(value: Any, wanted: Message) -> bool:
    """Whether a value is the wanted one, its type included."""
    expected = value_of(wanted)
    if isinstance(value, TypeValue):
        return bool(value.type.name == expected)
    if isinstance(expected, float) and math.isnan(expected):
        return isinstance(value, float) and math.isnan(value)
    return type(value) is type(expected) and equal(value, expected)


ALL = list(cases())
RUN = [case for case in ALL if exclusion(case) is None]


@pytest.fixture(autouse=True)
def mixed_literals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes refuses lists and maps of mixed types, which the tables are full of: that is left out here."""
    monkeypatch.setattr(checker, "literal_issues", lambda _: [])


@pytest.mark.skipif(CORPUS is None, reason="the corpus with cel-spec's tables is not on this machine")
@pytest.mark.parametrize("case", RUN, ids=[case.name for case in RUN])
def test_table(case: Case) -> None:
    """The expression has the value, the type or the error that the table says."""
    test = case.test
    if "eval_error" in test:
        with pytest.raises((EvaluationError, CompileError)):
            run(test)
    elif "typed_result" in test:
        result = test["typed_result"][0]
        program = compile_expression(test["expr"][0].decode(), environment_of(test))
        assert program.result == declared_type(result["deduced_type"][0])
        if "check_only" not in test:
            assert is_same(run(test), result["result"][0])
    else:
        value = run(test)
        assert is_same(value, test.get("value", [{"bool_value": ["true"]}])[0]), value


@pytest.mark.skipif(CORPUS is None, reason="the corpus with cel-spec's tables is not on this machine")
def test_exclusions_are_needed() -> None:
    """Every named exclusion names something that is there."""
    assert CORPUS is not None
    assert {path.stem for path in (CORPUS / FOLDER).glob("*.textproto")} >= EXCLUDED_FILES.keys()
    assert {case.name for case in ALL} | {case.name.rpartition("/")[0] for case in ALL} >= EXCLUDED_TESTS.keys()
