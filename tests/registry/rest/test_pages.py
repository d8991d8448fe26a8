"""Lists that are read page by page, in the memory of one server."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.registry.rest.pages import KEPT_SECONDS, Pages

ITEMS = [{"metadata": {"name": str(number)}} for number in range(5)]


def code_of(pages: Pages, scope: str, token: str) -> int:
    with pytest.raises(StatusError) as refused:
        pages.next(scope, token, 2)
    return refused.value.code


def test_a_list_is_kept_for_a_time() -> None:
    """Then its token is expired, as is that of another scope."""
    time = 0.0
    pages = Pages(lambda: time)
    page = pages.first("scope", ITEMS, 7, 2)
    assert (len(page.items), page.version, page.remaining) == (2, 7, 3)
    assert code_of(pages, "other", page.token) == 410
    assert pages.next("scope", page.token, 0).items == ITEMS[2:]
    time = KEPT_SECONDS + 1
    assert code_of(pages, "scope", page.token) == 410


def test_lists_are_bounded_together() -> None:
    """The longest unused one goes first. A list above the bound is answered whole."""
    pages = Pages(lambda: 0.0, most_objects=9)
    first, second = pages.first("a", ITEMS, 1, 2), pages.first("b", ITEMS, 1, 2)
    assert code_of(pages, "a", first.token) == 410
    assert pages.next("b", second.token, 2).remaining == 1
    assert Pages(lambda: 0.0, most_objects=4).first("a", ITEMS, 1, 2).items == ITEMS


@pytest.mark.parametrize("token", ["", "x", "1.", "-1.x", "9" * 20 + ".x"])
def test_malformed_tokens_are_refused(token: str) -> None:
    """With 400, as unusable ones."""
    assert code_of(Pages(lambda: 0.0), "a", token) == 400


def test_short_lists_are_not_kept() -> None:
    """A list that fits has no token, and neither has one without a limit."""
    pages = Pages(lambda: 0.0)
    assert pages.first("a", ITEMS, 1, 5).token == pages.first("a", ITEMS, 1, 0).token == ""
