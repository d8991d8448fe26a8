"""Names for objects that are created with `generateName` (apiserver `pkg/storage/names/generate.go`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated suffixes. Vowels and similar letters are left out, so that suffixes are not words."""
SUFFIX_LENGTH: Final = 5
MAX_GENERATED_NAME_LENGTH: Final = 63
MAX_BASE_LENGTH: Final = MAX_GENERATED_NAME_LENGTH - SUFFIX_LENGTH
MAX_ATTEMPTS: Final = 8
"""How often creation is tried with a new name before the collision is told to the client."""


def generate_name(base: str, choose: Callable[[int], int]) -> str:
    """A name: `base`, cut to 58 characters, and five random ones.

    Args:
        base: The object's `generateName`.
        choose: Gives a random number from 0 to below its argument, such as `random.Random().randrange` or `secrets.randbelow`.
    """
    return base[:MAX_BASE_LENGTH] + "".join(ALPHABET[choose(len(ALPHABET))] for _ in range(SUFFIX_LENGTH))
