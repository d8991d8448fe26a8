"""Sets of reconcile functions."""

from __future__ import annotations

import pytest

from kcp_py import ControlPlane, Options
from kcp_py.library.reconciling import Controllers
from kcp_py.testing.client_objects import CONFIG_MAPS
from tests.client.ships import Meta, Ship


async def sail(ship: Ship) -> None:
    """Does nothing."""


def test_mistakes_are_found_where_a_function_is_registered() -> None:
    """A name that is taken, a class without a description, an end without a finalizer, parameters that cannot be filled."""
    controllers = Controllers()
    assert controllers.reconcile(Ship)(sail) is sail
    with pytest.raises(ValueError, match="two controllers are named sail"):
        controllers.reconcile(CONFIG_MAPS)(sail)
    with pytest.raises(TypeError, match="neither a GroupVersionResource nor a class"):
        controllers.reconcile(Meta, name="meta")(sail)
    with pytest.raises(ValueError, match="finalize= needs finalizer="):
        controllers.reconcile(Ship, name="end", finalize=sail)(sail)
    with pytest.raises(TypeError, match="no parameter takes the object"):
        controllers.reconcile(Ship, name="empty", finalizer="a/b", finalize=lambda: None)(sail)
    assert len(controllers) == len(list(controllers)) == 1


@pytest.mark.anyio
async def test_a_control_plane_takes_functions_until_it_runs() -> None:
    """By its decorator, as controllers that operators select by name."""
    control_plane = ControlPlane(Options(storage="memory"))
    assert control_plane.reconcilers is None
    control_plane.reconcile(Ship, name="sailing")(sail)
    assert control_plane.reconcilers is not None
    with pytest.raises(ValueError, match="two controllers are named sailing"):
        control_plane.reconcile(Ship, name="sailing")(sail)
    async with control_plane:
        with pytest.raises(RuntimeError, match="is running"):
            control_plane.reconcile(Ship)(sail)
    async with ControlPlane(Options(storage="memory", controllers=("sail",)), controllers=list(_with_sail())):
        pass


def _with_sail() -> Controllers:
    controllers = Controllers()
    controllers.reconcile(Ship)(sail)
    return controllers
