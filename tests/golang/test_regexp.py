"""Patterns of tenants."""

from __future__ import annotations

import pytest

from kcp_py.golang.regexp import (
    PatternError,
    SearchTooLongError,
    compile_finder,
    compile_pattern,
    free_searches,
    repetitions,
    searches,
    weight,
)


def test_patterns_are_searched_not_matched():
    """A pattern without anchors is found anywhere."""
    assert compile_pattern("b+")("abbc")
    assert not compile_pattern("^b")("abbc")
    assert compile_pattern("")("")


def test_texts_are_judged_alike_each_time():
    """Whether or not a text, or many others, were judged before."""
    found = compile_pattern("^a+[0-9]*$")
    texts = [*(f"a{number}" for number in range(40)), "b", "a" * 100, ""]
    assert [found(text) for text in texts * 3] == [text.startswith("a") for text in texts] * 3


@pytest.mark.parametrize("pattern", [r"(?i)ABC", r"^\pL+$", r"[[:alpha:]]", r"\Qabc\E", r"(?P<name>a)"])
def test_the_syntax_is_that_of_go(pattern):
    """What Go's regexp compiles and Python's does not is understood."""
    assert compile_pattern(pattern)("abc")


MISTAKES = {
    "a(": "missing closing ): `a(`",
    "[a": "missing closing ]: `[a`",
    "a**": "invalid nested repetition operator: `**`",
    "*": "missing argument to repetition operator: `*`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "[b-a]": "invalid character class range: `b-a`",
    r"\8": r"invalid escape sequence: `\8`",
    "a)": "unexpected ): `a)`",
    "\\": "trailing backslash at end of expression: ``",
}


@pytest.mark.parametrize("pattern", MISTAKES)
def test_mistakes_are_worded_as_go_words_them(pattern):
    """A pattern that does not compile says why in Go's words."""
    with pytest.raises(PatternError) as caught:
        compile_pattern(pattern)
    assert str(caught.value) == f"error parsing regexp: {MISTAKES[pattern]}"


def test_bombs_are_harmless():
    """Patterns that take exponential time elsewhere are answered at once: the test would not finish."""
    assert not compile_pattern("^(a+)+$")("a" * 5000 + "b")
    assert compile_pattern("(x+x+)+y")("x" * 5000 + "y")


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        ("a*", "abaabaccadaaae", ["a", "aa", "a", "", "a", "aaa", ""]),
        ("", "\u4e16a\U0001f431", ["", "", "", ""]),
        ("[^a]", "\u4e16a\U0001f431", ["\u4e16", "\U0001f431"]),
        (r"\b", "ab \u4e16", ["", ""]),
        ("^", "ab\nc", [""]),
    ],
)
def test_finder(pattern, text, wanted):
    """All matches are found as Go's `FindAllString` finds them, by characters."""
    assert list(compile_finder(pattern)(text)) == wanted


COPIES = {
    "a{2}": 2,
    "x{1,10}y{3,}": 13,
    "(ab{3}){4}c{5}": 17,
    "((a{2}){3}){4}": 24,
    "(a|b){7}": 7,
    "[{]{3}": 3,
    "[]{9}]{3}": 3,
    "\\{{3}": 3,
    "a{2}?b": 2,
    "a{x}": 0,
    ")){2}": 2,
    "(((a{2}": 2,
}


@pytest.mark.parametrize("pattern", COPIES)
def test_counted_repetitions_are_counted(pattern):
    """Nested repetitions multiply; characters in classes and escaped ones do not count."""
    assert repetitions(pattern) == COPIES[pattern]


def test_patterns_that_take_long_to_compile_are_refused():
    """RE2 needs seconds for a few hundred characters with many counted repetitions, and blocks all other work meanwhile."""
    assert not compile_pattern("x{1,1000}" * 4)("a")
    with pytest.raises(PatternError, match="error parsing regexp: expression too large: "):
        compile_pattern("x{1,1000}" * 5)


def test_a_pattern_that_no_set_takes_is_searched_for():
    """Where the automaton of the fast way outgrows its memory, the slow way is left."""
    found = compile_pattern(r"^(\p{L}|\p{N}){1,253}$")
    assert found("é1")
    assert not found("-")


@pytest.mark.parametrize("pattern", [r"\pL" * 100_000, r"[\pL\PN]" * 30, r"\p{L}?" * 60, "a?" * 30_000, "[^x]" * 20_000])
def test_patterns_whose_text_takes_long_to_compile_are_refused(pattern: str) -> None:
    """A hundred thousand Unicode classes, in 300 kB, would take RE2 eighteen seconds with the interpreter's lock."""
    with pytest.raises(PatternError, match="error parsing regexp: expression too large: "):
        compile_pattern(pattern)


def test_an_escaped_backslash_begins_no_class() -> None:
    """What follows it is plain text."""
    assert compile_pattern(r"^(\\p){50}$")(r"\p" * 50)
    assert compile_pattern(r"\\p" * 60)(r"\p" * 60)


HEAVY = "(((a*)*)*){1000}"


def test_a_search_that_takes_too_long_is_refused() -> None:
    """A program of fifteen thousand instructions, of which each looks at each byte: ten minutes for a large object."""
    found = compile_pattern(HEAVY)
    assert found("a" * 100)
    with pytest.raises(SearchTooLongError):
        found("a" * 1_000_000)


def test_searches_of_one_object_share_their_time() -> None:
    """After many that are allowed one by one there is no more, until the next object begins."""
    found = compile_pattern(HEAVY)
    with searches(), pytest.raises(SearchTooLongError):
        all(found("a" * 4000) for _ in range(1000))
    with searches():
        assert found("a" * 4000)


def test_matches_that_look_at_all_of_the_rest_end_somewhere() -> None:
    """Each match of a character reads the text to its end, in search of something longer."""
    with searches(), pytest.raises(SearchTooLongError):
        list(compile_finder("a*b|a")("a" * 400_000))


def test_the_weight_of_a_pattern_is_that_of_its_program() -> None:
    """Repetitions that are counted, and parts that are many or large; 0 for the patterns of every day."""
    assert weight("^[a-z]([-a-z0-9]*[a-z0-9])?$") == 0
    assert weight("^[a-z]{1,63}$") == 63
    assert weight(r"\pL?" * 10) > 500
    assert weight(".?" * 1000) > 500


def test_free_searches_leave_the_allowance_alone() -> None:
    """Short searches are free, a long one is refused, and the searches around them have all their steps."""
    found = compile_pattern("(a|b){0,200}$")
    with searches():
        assert free_searches(found, "ab")
        for _ in range(2):
            with pytest.raises(SearchTooLongError):
                free_searches(found, "ab" * 10_000)
        assert found("ab" * 10_000)
    assert found("ba" * 10_000)
