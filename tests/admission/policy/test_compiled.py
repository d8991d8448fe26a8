"""How often policies are compiled, and how much of them is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kcp_py.admission.policy.compiled import CompiledPolicies
from kcp_py.admission.policy.definitions import Definition, parse_policy
from tests.admission.policy.making import policy

pytestmark = pytest.mark.anyio


class Compiler:
    """Counts what it compiles."""

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.failures = 0

    def __call__(self, spec: Mapping[str, Any]) -> str:
        if self.failures:
            self.failures -= 1
            raise MemoryError
        text: str = spec["validations"][0]["expression"]
        self.compiled.append(text)
        return text.upper()


def definition(expression: str, name: str = "p") -> Definition:
    return parse_policy({"kind": "ValidatingAdmissionPolicy", **policy(name, expression)})


async def test_equal_policies_of_many_clusters() -> None:
    """They are one object, which is compiled once, however many clusters ask for it at the same time."""
    compiler = Compiler()
    compiled = CompiledPolicies(compiler)
    definitions = [definition("true") for _ in range(1000)]
    assert len({id(one) for one in definitions}) == 1
    assert set(await asyncio.gather(*(compiled.get(one) for one in definitions))) == {"TRUE"}
    assert compiler.compiled == ["true"]
    await compiled.get(definition("false"))
    await compiled.get(definition("true", name="other"))
    assert compiler.compiled == ["true", "false", "true"]


async def test_what_is_kept_is_bounded() -> None:
    """Policies that were not used for long are compiled again."""
    compiler = Compiler()
    compiled = CompiledPolicies(compiler)
    large = "'" + "x" * 400_000 + "' != '{}'"
    definitions = [definition(large.replace("{}", str(number))) for number in range(8)]
    for one in definitions:
        await compiled.get(one)
    await compiled.get(definitions[-1])
    assert len(compiler.compiled) == 8
    await compiled.get(definitions[0])
    assert len(compiler.compiled) == 9
    assert len(compiled) < 8


async def test_a_compilation_that_fails_is_tried_again() -> None:
    """All requests that waited for it fail, and the next one begins anew."""
    compiler = Compiler()
    compiled = CompiledPolicies(compiler)
    compiler.failures = 1
    found = await asyncio.gather(*(compiled.get(definition("true")) for _ in range(2)), return_exceptions=True)
    assert [type(one) for one in found] == [MemoryError, MemoryError]
    assert await compiled.get(definition("true")) == "TRUE"


async def test_a_request_that_ends_early() -> None:
    """It does not end the compilation for others."""
    compiler = Compiler()
    compiled = CompiledPolicies(compiler)
    one = definition("true")
    first, second = asyncio.ensure_future(compiled.get(one)), asyncio.ensure_future(compiled.get(one))
    while not compiled.waiting:
        await asyncio.sleep(0)
    first.cancel()
    assert await second == "TRUE"
    assert compiler.compiled == ["true"]
