"""Decide which addresses may be contacted: public unicast ones, and those an operator listed.

Not which name leads to an address (`resolve`), and not which requests may be made (`allowlist`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# Every block that is not public unicast, with the words a refusal uses. The first match is named.
_SPECIAL_V4 = (
    ("0.0.0.0/8", "an address of this host"),
    ("10.0.0.0/8", "a private address"),
    ("100.64.0.0/10", "a shared address (carrier-grade NAT)"),
    ("127.0.0.0/8", "a loopback address"),
    ("169.254.0.0/16", "a link-local address"),
    ("172.16.0.0/12", "a private address"),
    ("192.0.0.0/24", "a protocol assignment"),
    ("192.0.2.0/24", "a documentation address"),
    ("192.88.99.0/24", "a 6to4 relay"),
    ("192.168.0.0/16", "a private address"),
    ("198.18.0.0/15", "a benchmarking address"),
    ("198.51.100.0/24", "a documentation address"),
    ("203.0.113.0/24", "a documentation address"),
    ("224.0.0.0/4", "a multicast address"),
    ("255.255.255.255/32", "the broadcast address"),
    ("240.0.0.0/4", "a reserved address"),
)
_SPECIAL_V6 = (
    ("::/128", "the unspecified address"),
    ("::1/128", "a loopback address"),
    ("::ffff:0:0:0/96", "an address that carries a translated IPv4 address"),
    ("::/96", "an address that carries an IPv4 address"),
    ("64:ff9b:1::/48", "a local translation address"),
    ("100::/64", "a discard address"),
    ("2001::/32", "a Teredo address, which carries IPv4 addresses"),
    ("2001::/23", "a protocol assignment"),
    ("2001:db8::/32", "a documentation address"),
    ("2002::/16", "a 6to4 address, which carries an IPv4 address"),
    ("3fff::/20", "a documentation address"),
    ("fc00::/7", "a unique local address"),
    ("fe80::/10", "a link-local address"),
    ("fec0::/10", "a site-local address"),
    ("ff00::/8", "a multicast address"),
)
_PUBLIC_V6 = IPv6Network("2000::/3")

# Networks that reach IPv4 hosts through these two forms are real (DNS64, dual-stack sockets), so
# the inner address decides. Every other carrier is obsolete and refused outright.
_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")

# Handing out a cloud's credentials is never a side effect of a wide allowance.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "100.100.100.200",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
    )
)


def refusal(text: str, permitted: Iterable[Network] = ()) -> str | None:
    """Why an address must not be contacted, as words that follow "is"; None when it may be.

    Args:
        text: The address as a resolver or a URL wrote it.
        permitted: Networks that may be contacted although they are not public. A metadata service
            of a cloud needs an entry that names that very address.
    """
    if "%" in text:
        return "an address with a zone identifier"
    try:
        address = ip_address(text)
    except ValueError:
        return "not an IP address"
    # A carrier reaches the inner address, so that one alone is judged, permissions included.
    inner = _carried(address)
    judged = inner or address
    if _is_permitted(judged, permitted):
        return None
    why = _special(judged)
    return f"an address that carries {inner}, {why}" if why and inner else why


def networks(listed: Iterable[str | IPv4Network | IPv6Network]) -> tuple[Network, ...]:
    """Read a list of networks such as `10.0.0.0/8`.

    Raises:
        ValueError: For an entry that is no network; the message names it.
    """
    return tuple(ip_network(entry) if isinstance(entry, str) else entry for entry in listed)


def _is_permitted(address: Address, permitted: Iterable[Network]) -> bool:
    return any(
        address in network and (network.num_addresses == 1 or address not in _METADATA)
        for network in permitted
    )


def _carried(address: Address) -> IPv4Address | None:
    if isinstance(address, IPv6Address) and (address in _MAPPED or address in _NAT64):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None


def _special(address: Address) -> str | None:
    for network, why in _specials(address.version):
        if address in network:
            return why
    if isinstance(address, IPv4Address):
        return None
    if address not in _PUBLIC_V6:
        return "outside the public range 2000::/3"
    # The interface identifier 0000:5efe or 0200:5efe, whatever its group bit, marks ISATAP.
    if int(address) >> 32 & 0xFCFF_FFFF == 0x0000_5EFE:
        return "an ISATAP address, which carries an IPv4 address"
    return None


@functools.cache
def _specials(version: int) -> tuple[tuple[Network, str], ...]:
    table = _SPECIAL_V4 if version == 4 else _SPECIAL_V6
    return tuple((ip_network(text), why) for text, why in table)
