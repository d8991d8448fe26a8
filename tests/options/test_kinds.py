"""How values are read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.options import SETTINGS
from kcp_py.options.kinds import ADDRESS_RANGES, PORT_RANGE, SIZE, URLS, is_host, parse_duration, render_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("500ms", 0.5), ("30s", 30), ("5m", 300), ("1h30m", 5400), ("1.5h", 5400), ("2m3s", 123), ("250us", 0.00025)],
)
def test_durations_are_read_as_go_writes_them(text, seconds):
    """A duration is numbers with Go's units, added up."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "-5s", "5 s", "s", "5d", "5s5", "1h-30m", "٣s", "5S", "\n5s"])
def test_other_texts_are_no_durations(text):
    """Without a unit, with a sign, or with anything between the parts it is refused."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_no_duration_is_endless():
    """What no float holds is refused."""
    with pytest.raises(ValueError, match="no duration is that long"):
        parse_duration("9" * 400 + "h")


def test_long_durations_keep_their_milliseconds():
    """Rendering does not round."""
    assert render_duration(18000.003) == "18000003ms"


@given(st.integers(0, 10**7))
def test_whole_seconds_survive_rendering(seconds):
    """A rendered duration is parsed as the same number of seconds."""
    assert parse_duration(render_duration(seconds)) == seconds


@given(st.integers(0, 2**50))
def test_sizes_survive_rendering(size):
    """A rendered size is parsed as the same number of bytes."""
    assert SIZE.parse(SIZE.render(size)) == size


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_survives_rendering(setting):
    """The default that help and the reference show is the default that applies."""
    assert setting.kind.parse(setting.default_text) == setting.default


@pytest.mark.parametrize("text", ["a", "a.example", "127.0.0.1", "::1", "A-1.b"])
def test_hosts(text):
    """DNS names and addresses are hosts."""
    assert is_host(text)


@pytest.mark.parametrize("text", ["", "-a", "a_b", "a..b", "[::1]", "a/b", "a b", "x" * 64, "a:80", "a\n"])
def test_no_hosts(text):
    """A text that cannot be the host of a URL is refused."""
    assert not is_host(text)


@pytest.mark.parametrize(
    "text",
    ["etcd:2379", "ftp://etcd", "https://", "https://etcd/path", "https://u:p@etcd", "https://etcd:0", "https://etcd:x", "http://[::1"],
)
def test_other_urls_are_refused(text):
    """An endpoint is a scheme, a host and a port, and nothing else."""
    with pytest.raises(ValueError):  # noqa: PT011 - urlsplit's own message for a broken bracket
        URLS.parse(text)


@pytest.mark.parametrize(
    ("text", "ranges"),
    [
        ("", ()),
        ("10.96.0.0/16", ("10.96.0.0/16",)),
        ("10.96.0.0/12,fd00::/112", ("10.96.0.0/12", "fd00::/112")),
        ("fd00::/64,10.0.0.0/30", ("fd00::/64", "10.0.0.0/30")),
    ],
)
def test_ranges_of_addresses(text, ranges):
    """One range, or one of each family in the order of preference."""
    assert ADDRESS_RANGES.parse(text) == ranges


@pytest.mark.parametrize(
    "text", ["10.96.0.1/16", "10.0.0.0/8", "10.0.0.0/31", "fd00::/48", "fd00::/127", "10.0.0.0/24,10.1.0.0/24", "any", "10.0.0.0/24,x"]
)
def test_other_ranges_of_addresses_are_refused(text):
    """With bits behind the prefix, too large or too small, or two of one family."""
    with pytest.raises(ValueError, match=r"range of addresses|have a prefix|one range of IPv4"):
        ADDRESS_RANGES.parse(text)


@pytest.mark.parametrize("text", ["", "30000", "0-5", "30000-29999", "30000-65536", "30000+100", "a-b", "1-2-3"])
def test_other_ranges_of_ports_are_refused(text):
    """The first port is not above the last one, and both exist."""
    assert PORT_RANGE.parse("30000-32767") == "30000-32767"
    with pytest.raises(ValueError, match="range of ports"):
        PORT_RANGE.parse(text)
