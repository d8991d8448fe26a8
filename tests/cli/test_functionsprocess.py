"""Arguments of `kcp-py controllers --app`."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kcp_py import ControlPlane, Options
from kcp_py.cli.exits import CommandError, UsageError
from kcp_py.cli.functionsprocess import controllers_of, parse_lease
from kcp_py.cli.root import run
from kcp_py.client.keys import Key
from kcp_py.library.reconciling import Controllers
from kcp_py.logicalcluster import ROOT
from kcp_py.testing.client_objects import CONFIG_MAPS


async def sail(obj: object) -> None:
    """Does nothing."""


def test_functions_are_found_in_programs() -> None:
    """In controllers, in a control plane, and in a module that has one of them."""
    controllers, plane = Controllers(), ControlPlane(Options(storage="memory"))
    controllers.reconcile(CONFIG_MAPS)(sail)
    plane.reconcile(CONFIG_MAPS)(sail)
    assert controllers_of(controllers, "x") is controllers
    assert controllers_of(plane, "x") is plane.reconcilers
    assert controllers_of(SimpleNamespace(empty=Controllers(), mine=controllers), "x") is controllers
    for nothing in (5, SimpleNamespace(), Controllers(), ControlPlane(Options(storage="memory"))):
        with pytest.raises(CommandError, match="x has no reconcile functions"):
            controllers_of(nothing, "x")


def test_a_lease_has_three_parts() -> None:
    """A logical cluster, a namespace and a name."""
    assert parse_lease("root/default/fleet") == Key(ROOT, "default", "fleet")
    for text in ("fleet", "root//fleet", "A:B/b/c", "a/b/c/d"):
        with pytest.raises(UsageError, match="expected CLUSTER/NAMESPACE/NAME"):
            parse_lease(text)


def test_flags_of_programs_need_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Else they would be ignored."""
    assert run(["controllers", "--lease", "a/b/c"]) == 2
    assert "belong to --app" in capsys.readouterr().err
