"""What a server imports, and when: an idle server keeps only the modules in memory that every server needs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

COMPILER: Final = "kcp_py.schema.rules.compilation"
TOKENS: Final = "kcp_py.authn.serviceaccount.keys"
HEAVY: Final = (
    "aiohttp",
    "fastapi",
    "google.protobuf",
    "grpc",
    "httpcore",
    "joserfc",
    "jsonschema",
    "kcp_py.apis.jwt.expressions",
    "kcp_py.authn.oidc.building",
    "kcp_py.authn.oidc.signatures",
    "kcp_py.authz.webhook.conditions",
    "kcp_py.cel.checker",
    "kcp_py.cel.environment",
    "kcp_py.cel.parser",
    "kcp_py.cel.program",
    "kcp_py.schema.crd.rule_checks",
    "kcp_py.server.pages.application",
    "kcp_py.storage.etcd.driver",
    "kubernetes",
    "kubernetes_validate",
    "opentelemetry",
    "pydantic",
    "pygments",
    COMPILER,
    TOKENS,
)
"""Together they would make an idle server half as large again. Import them where they are first needed, in a thread."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.controlplane.idle_server", str(tmp_path_factory.mktemp("root"))]
    finished = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2])
    found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("module", HEAVY)
def test_an_idle_server_has_not_imported_what_it_does_not_use(server: dict[str, Any], module: str) -> None:
    """After a start and a list, heavy modules are not in memory."""
    assert find_spec(module) is not None, "the module has another name now"
    assert "kcp_py.controlplane.controlplane" in server["idle"]
    assert module not in server["idle"]


@pytest.mark.parametrize("module", [COMPILER, "kcp_py.cel.program", TOKENS, "joserfc"])
def test_the_first_use_imports_in_a_thread(server: dict[str, Any], module: str) -> None:
    """The first CRD with rules and the first token do not hold up the event loop for an import."""
    assert server["threads"]["kcp_py.controlplane.controlplane"] == "MainThread"
    assert server["threads"][module].startswith("offload")
