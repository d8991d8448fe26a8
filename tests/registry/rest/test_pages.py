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
    page = pages.first("x", "scope", ITEMS, 7, 2)
    assert (len(page.items), page.version, page.remaining) == (2, 7, 3)
    assert code_of(pages, "other", page.token) == 410
    assert pages.next("scope", page.token, 0).items == ITEMS[2:]
    time = KEPT_SECONDS + 1
    assert code_of(pages, "scope", page.token) == 410


def test_lists_of_an_owner_are_bounded() -> None:
    """Its least recently read list goes first. A list above half of the bound is answered whole."""
    pages = Pages(lambda: 0.0, most_objects=20)
    first, second = (pages.first("x", "a", ITEMS, 1, 2) for _ in range(2))
    assert pages.next("a", first.token, 1).remaining == 2
    third = pages.first("x", "a", ITEMS, 1, 2)
    assert code_of(pages, "a", second.token) == 410
    assert pages.next("a", first.token, 2).remaining == pages.next("a", third.token, 2).remaining == 1
    assert Pages(lambda: 0.0, most_objects=9).first("x", "a", ITEMS, 1, 2).items == ITEMS


def test_an_owner_cannot_push_out_the_lists_of_another() -> None:
    """However many lists it reads: its own go, or those of an owner that keeps more. Where all keep as much, a list is answered whole."""
    pages = Pages(lambda: 0.0, most_objects=20)
    victim, *greedy = (pages.first(owner, "a", ITEMS, 1, 2) for owner in ("victim", "greedy", "greedy"))
    other = [pages.first("other", "a", ITEMS, 1, 2) for _ in range(5)]
    for page in other[:-1]:
        assert code_of(pages, "a", page.token) == 410
    for page in (victim, *greedy, other[-1]):
        assert pages.next("a", page.token, 2).remaining == 1
    newcomer = pages.first("newcomer", "a", ITEMS, 1, 2)
    assert code_of(pages, "a", greedy[0].token) == 410
    for page in (victim, greedy[1], other[-1], newcomer):
        assert pages.next("a", page.token, 2).remaining == 1
    assert pages.first("fifth", "a", ITEMS, 1, 2).items == ITEMS


def test_expired_lists_give_room() -> None:
    """They go before lists that can be read."""
    time = 0.0
    pages = Pages(lambda: time, most_objects=10)
    old = pages.first("x", "a", ITEMS, 1, 2)
    time = KEPT_SECONDS + 1
    assert pages.first("y", "a", ITEMS, 1, 2).token
    assert pages.first("z", "a", ITEMS, 1, 2).token
    assert code_of(pages, "a", old.token) == 410


@pytest.mark.parametrize("token", ["", "x", "1.", "-1.x", "9" * 20 + ".x"])
def test_malformed_tokens_are_refused(token: str) -> None:
    """With 400, as unusable ones."""
    assert code_of(Pages(lambda: 0.0), "a", token) == 400


def test_short_lists_are_not_kept() -> None:
    """A list that fits has no token, and neither has one without a limit."""
    pages = Pages(lambda: 0.0)
    assert pages.first("x", "a", ITEMS, 1, 5).token == pages.first("x", "a", ITEMS, 1, 0).token == ""
