"""Which addresses may be called."""

from __future__ import annotations

import pytest

from kcp_py.egress import Networks

PUBLIC_ADDRESSES = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE_ADDRESSES = [
    "127.0.0.1", "127.8.9.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1",
    "240.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "fe80::1%eth0", "fd00::1", "fec0::1", "ff02::1", "::ffff:127.0.0.1",
    "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "not an address", "",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC_ADDRESSES)
def test_public_means_the_internet(address: str) -> None:
    """In whatever form an address is written."""
    assert Networks(["public"]).allow(address)


@pytest.mark.parametrize("address", PRIVATE_ADDRESSES)
def test_public_is_nothing_of_the_operator(address: str) -> None:
    """Neither the machine, nor its network, nor what speaks for one of them."""
    assert not Networks(["public"]).allow(address)


@pytest.mark.parametrize("address", [*PUBLIC_ADDRESSES, *PRIVATE_ADDRESSES])
def test_without_networks_nothing_is_called(address: str) -> None:
    """Not even the internet."""
    assert not Networks([]).allow(address)


def test_named_networks_are_called() -> None:
    """Those alone, and mapped addresses with them."""
    networks = Networks(["10.0.0.0/8", "127.0.0.1", "fd00::/8"])
    assert all(networks.allow(address) for address in ("10.1.2.3", "127.0.0.1", "::ffff:10.0.0.1", "fd00::1"))
    assert not any(networks.allow(address) for address in ("127.0.0.2", "8.8.8.8", "::1", "64:ff9b::c0a8:1"))


def test_what_is_no_network_is_refused() -> None:
    """Also a network whose host part is set."""
    for name in ("private", "10.0.0.1/8"):
        with pytest.raises(ValueError, match=r"network|host bits"):
            Networks([name])
