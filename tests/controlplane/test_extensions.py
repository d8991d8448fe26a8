"""What a program adds to its control plane, and until when."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py import ControlPlane, Options

pytestmark = pytest.mark.anyio


async def test_nothing_is_added_to_a_running_control_plane() -> None:
    """A decorator that comes too late says so, instead of being ignored."""
    async with ControlPlane(Options(storage="memory")) as control_plane:
        with pytest.raises(RuntimeError, match="before it is entered"):
            control_plane._check_open()
    ControlPlane(Options(storage="memory"))._check_open()


def function(*_: object) -> None:
    """Stands where an object or a text belongs."""


@pytest.mark.parametrize(
    ("argument", "help_"),
    [
        ("authenticators", "has no method authenticate; a function is added by @control_plane.authenticator"),
        ("authorizers", "has no method authorize; a function is added by @control_plane.authorizer"),
        ("admission", "has no method validate; a function is added by @control_plane.mutating or @control_plane.validating"),
    ],
)
def test_a_function_in_the_place_of_an_object_is_refused(argument: str, help_: str) -> None:
    """The message names the decorator; otherwise each request would fail."""
    given: Any = {argument: [function]}
    with pytest.raises(TypeError, match=help_):
        ControlPlane(Options(storage="memory"), **given)
    with pytest.raises(TypeError, match=help_):
        ControlPlane(Options(storage="memory")).extend(**given)


@pytest.mark.parametrize("decorator", ["mutating", "validating", "get", "post", "reconcile"])
def test_decorators_without_brackets_are_refused(decorator: str) -> None:
    """None of them takes the function for an argument, and then loses it."""
    with pytest.raises(TypeError, match="function"):
        getattr(ControlPlane(Options(storage="memory")), decorator)(function)
