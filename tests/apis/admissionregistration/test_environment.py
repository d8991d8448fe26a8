"""What expressions of policies may use."""

from __future__ import annotations

import pytest

from kcp_py.apis.admissionregistration.environment import Declared, environment_of, with_composed
from kcp_py.cel.errors import CompileError
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import INT, list_of, object_of, optional_of

PATCHES = Declared(patch_types=True)


@pytest.mark.parametrize(
    ("text", "declared", "result"),
    [
        ("object.spec.replicas", Declared(), "dyn"),
        ("request.userInfo.groups", Declared(), "list(string)"),
        ("namespaceObject.metadata.creationTimestamp", Declared(), "timestamp"),
        ("params.data", Declared(params=True), "dyn"),
        ("authorizer.requestResource.check('get').allowed()", Declared(), "bool"),
        ("Object{spec: Object.spec{replicas: 1}}", PATCHES, "Object"),
        ("Object.spec{}", PATCHES, "Object.spec"),
        ("[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: Object.a{}}]", PATCHES, "list(JSONPatch)"),
    ],
)
def test_types(text: str, declared: Declared, result: str) -> None:
    """Variables have kube-apiserver's types, and mutations can make objects and patches."""
    assert str(compile_expression(text, environment_of(declared)).result) == result


@pytest.mark.parametrize(
    ("text", "declared", "message"),
    [
        ("params.data", Declared(), "undeclared reference to 'params'"),
        ("authorizer.group('')", Declared(authorizer=False), "undeclared reference to 'authorizer'"),
        ("request.object", Declared(), "undefined field 'object'"),
        ("namespaceObject.metadata.uid", Declared(), "undefined field 'uid'"),
        ("Object{}", Declared(), "undeclared reference to 'Object'"),
        ("jsonpatch.escapeKey('a')", Declared(), "undeclared reference to 'jsonpatch'"),
        ("variables.x", Declared(), "undeclared reference to 'variables'"),
        ("JSONPatch{op: 1}", PATCHES, "expected type of field 'op' is 'string' but provided type is 'int'"),
    ],
)
def test_absent(text: str, declared: Declared, message: str) -> None:
    """Names that are not declared for an expression are unknown."""
    with pytest.raises(CompileError, match=message):
        compile_expression(text, environment_of(declared))


def test_composed_variables() -> None:
    """Variables keep types of scalars and lists; objects and opaque values are of any type, as upstream."""
    types = {"n": INT, "list": list_of(INT), "maybe": optional_of(INT), "part": object_of("x", {})}
    environment = with_composed(environment_of(Declared()), types)
    results = [str(compile_expression(f"variables.{name}", environment).result) for name in types]
    assert results == ["int", "list(int)", "dyn", "dyn"]
