"""Generated names."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.generate_name import ALPHABET, generate_name


def test_base_is_cut_to_leave_room():
    """A generated name never exceeds 63 characters."""
    assert generate_name("a" * 100, lambda _: 0) == "a" * 58 + "bbbbb"


@given(st.text(max_size=80), st.integers())
def test_suffix_has_five_characters_of_the_alphabet(base, seed):
    """The suffix comes from the alphabet without vowels."""
    name = generate_name(base, random.Random(seed).randrange)
    assert name[:-5] == base[:58]
    assert set(name[-5:]) <= set(ALPHABET)
