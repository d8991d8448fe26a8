"""The objects that `--app` takes, the settings that hold, and the messages about everything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kcp_py import ControlPlane, Options, server_command
from kcp_py.cli.applications import Application
from kcp_py.cli.arguments import options_from
from kcp_py.cli.exits import CommandError

pytestmark = pytest.mark.anyio

MEMORY = Options(storage="memory", batteries=())


def factory(options: Options) -> ControlPlane:
    return ControlPlane(options)


async def waiting(options: Options) -> ControlPlane:
    return ControlPlane(options)


@asynccontextmanager
async def context(options: Options) -> AsyncIterator[ControlPlane]:
    yield ControlPlane(options)


@asynccontextmanager
async def entered(options: Options) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(options) as made:
        yield made


async def waiting_context(options: Options) -> Any:
    return context(options)


@pytest.mark.parametrize("made", [factory, waiting, context, entered, waiting_context])
async def test_a_function_makes_a_control_plane_of_the_settings(made: Any) -> None:
    """At once, later, or in a context of its own."""
    application = Application(made, "app")
    assert application.base is None
    async with application.entered(MEMORY) as control_plane:
        assert control_plane.options is MEMORY
        assert control_plane.client is not None


async def test_settings_of_the_command_line_replace_those_of_a_control_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are given, even if they are the defaults; all others stay."""
    application = Application(ControlPlane(Options(storage="memory", secure_port=1234, request_timeout=5.0)), "app")
    monkeypatch.setenv("KCP_PY_SECURE_PORT", "6443")
    options = options_from({"batteries": "none"}, config_file=None, base=application.base)
    assert (options.storage, options.secure_port, options.request_timeout, options.batteries) == ("memory", 6443, 5.0, ())
    async with application.entered(options) as control_plane:
        assert control_plane.options is options


@pytest.mark.parametrize("made", [42, "text", ControlPlane, Options(), None])
def test_other_objects_are_refused(made: Any) -> None:
    """With what they are."""
    with pytest.raises(CommandError, match=r"app is .*, and neither a ControlPlane nor a function that takes Options"):
        Application(made, "app")


@asynccontextmanager
async def of_text(_: Options) -> AsyncIterator[str]:
    yield "text"


@pytest.mark.parametrize(
    ("made", "problem"), [(lambda _: None, "app returned NoneType instead of"), (of_text, "the context of app gives str instead of")]
)
async def test_a_function_that_makes_something_else(made: Any, problem: str) -> None:
    """Before anything is served."""
    with pytest.raises(CommandError, match=problem):
        await Application(made, "app").entered(MEMORY).__aenter__()


@pytest.mark.parametrize("target", ["module", "kcp_py:", "kcp_py.nothing:app", "kcp_py:nothing", "nothing.py:app"])
def test_a_target_that_is_not_there(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says so."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandError):
        Application.load(target)


def test_a_failure_in_the_program_has_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault that the control plane reports has none."""

    def fails(options: Options) -> ControlPlane:
        raise OverflowError(options.storage)

    application = Application(fails, "app")
    with pytest.raises(OverflowError) as raised:
        fails(MEMORY)
    assert application.failure(raised.value).message == "app: OverflowError: memory"
    assert "in fails" in capsys.readouterr().err
    assert application.failure(ValueError("several admission plugins are named x")).message == "app: several admission plugins are named x"
    assert capsys.readouterr().err == ""


def test_a_command_has_settings_and_options_of_its_own() -> None:
    """Both are in its help, below their headings; both reach the function."""
    seen: list[tuple[Options, str]] = []

    @server_command("fleet", epilog="More.")
    @click.option("--home", default="Athens", help="Home port.")
    def fleet(options: Options, home: str) -> None:
        """Serve a fleet."""
        seen.append((options, home))

    shown = CliRunner().invoke(fleet, ["--help"]).output
    assert "Serve a fleet." in shown
    assert "--home TEXT" in shown
    assert "--secure-port" in shown
    assert CliRunner().invoke(fleet, ["--secure-port", "many"]).exit_code == 2


def test_an_option_with_the_name_of_a_setting_is_refused() -> None:
    """When the command is made."""
    with pytest.raises(ValueError, match="belong to settings: storage"):

        @server_command()
        @click.option("--storage")
        def fleet(options: Options, storage: str) -> None:
            """Serve a fleet."""
