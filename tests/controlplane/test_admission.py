"""The chain of a server has the plugins that are on, in their order, with those of a library user at their place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcp_py.admission.names import OFF_BY_DEFAULT, PLUGINS
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.admission import AdmissionPlugin
from tests.server.handlers.conftest import options

pytestmark = pytest.mark.anyio

# EventRateLimit is the only plugin that does not start without a configuration.
CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 1, burst: 1}]
"""


class Own(AdmissionPlugin):
    """Does nothing."""

    name = "Own"


class Other(Own):
    """Does nothing either."""

    name = "Other"


async def names(tmp_path: Path, *additional: AdmissionPlugin, enable: tuple[str, ...] = (), disable: tuple[str, ...] = ()) -> list[str]:
    """The chain of a server."""
    configuration = tmp_path / "admission.yaml"
    configuration.write_text(CONFIGURATION)
    chosen = replace(options(tmp_path), enable_admission_plugins=enable, disable_admission_plugins=disable)
    if "EventRateLimit" in enable:
        chosen = replace(chosen, admission_control_config_file=configuration)
    async with ControlPlane(chosen, admission=additional) as control_plane:
        return [plugin.name for plugin in control_plane.backend.access.admission.plugins]


async def test_plugins_have_their_order_whatever_the_switches_say(tmp_path: Path) -> None:
    """All that are on by default, and all that can be enabled."""
    assert await names(tmp_path) == [name for name in PLUGINS if name not in OFF_BY_DEFAULT]
    every = tuple(reversed(PLUGINS))
    assert await names(tmp_path, enable=every) == [*PLUGINS]


async def test_plugins_of_a_library_user_keep_their_order_and_their_place(tmp_path: Path) -> None:
    """After the plugins that fill objects, before those that judge what others made of them."""
    found = await names(tmp_path, Own(), Other())
    place = found.index("Own")
    assert found[place : place + 2] == ["Own", "Other"]
    assert found.index("TokenSecrets") < place < found.index("RBACEscalation")


async def test_an_operator_switches_plugins_off_by_name(tmp_path: Path) -> None:
    """Those of the server and those of a library user."""
    found = await names(tmp_path, Own(), Other(), disable=("NamespaceLifecycle", "Own"))
    assert not {"NamespaceLifecycle", "Own"} & {*found}
    assert "Other" in found


async def test_a_wrong_switch_fails_the_start(tmp_path: Path) -> None:
    """The library raises what the command line shows."""
    with pytest.raises(ValueError, match=r"unknown plugins: Nothing; there are .*, Own$"):
        await names(tmp_path, Own(), enable=("Nothing",))


@pytest.mark.parametrize(
    "additional",
    [pytest.param([Own(), Own()], id="two of them"), pytest.param([type("Taken", (Own,), {"name": "NodeRestriction"})()], id="upstream's")],
)
async def test_a_name_is_given_once(tmp_path: Path, additional: list[AdmissionPlugin]) -> None:
    """A switch would not say which one it means."""
    with pytest.raises(ValueError, match=f"^several admission plugins are named {additional[0].name}$"):
        await names(tmp_path, *additional)
