from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardpoint.errors import ExternalService, InvalidParameters, NotAuthorized
from hardpoint.net import UrlGuard, parse_networks
from hardpoint.net.address import networks, refusal

PUBLIC = [
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:db7:ffff::1",
    "2001:db9::1",
    "2001:4860:4860::8888",
    "2003::1",
    "2606:4700:4700::1111",
    "3ffe:ffff::1",
    "3fff:1000::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]
REFUSED = [
    "0.0.0.0",
    "0.255.255.255",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "169.254.0.0",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.255",
    "192.0.2.1",
    "192.168.255.255",
    "198.18.0.0",
    "198.19.255.255",
    "198.51.100.255",
    "203.0.113.7",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.0",
    "255.255.255.254",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::8.8.8.8",
    "::ffff:10.1.2.3",
    "::ffff:0:8.8.8.8",
    "::ffff:0:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:0:0:1::8.8.8.8",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1:ffff::1",
    "100::1",
    "100:0:0:1::1",
    "1fff:ffff::1",
    "2001::1",
    "2001:0:4136:e378:8000:63bf:80ff:fefe",
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff::1",
    "2001:db8::1",
    "2002:808:808::1",
    "2002:7f00:1::",
    "2606:4700::5efe:10.0.0.1",
    "2606:4700::200:5efe:8.8.8.8",
    "2606:4700::100:5efe:127.0.0.1",
    "2606:4700::300:5efe:127.0.0.1",
    "3fff::1",
    "3fff:fff:ffff::1",
    "4000::1",
    "5f00::1",
    "8000::1",
    "fbff::1",
    "fc00::1",
    "fdff::1",
    "fe00::1",
    "fe80::1",
    "febf::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "fe80::1%eth0",
    "2606:4700::1%1",
    "8.8.8.8%eth0",
    "",
    "localhost",
    "1.1",
    "08.8.8.8",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_contacted(address):
    assert refusal(address) is None


@pytest.mark.parametrize("address", REFUSED)
def test_any_other_address_may_not(address):
    assert refusal(address) is not None


@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_no_address_that_python_knows_as_special_is_public(address):
    if refusal(str(address)) is None:
        inner = address.ipv4_mapped
        if address in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        assert (inner or address).is_global


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_no_ipv4_address_that_python_knows_as_special_is_public(address):
    if refusal(str(address)) is None:
        assert address.is_global
        assert not address.is_multicast


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_an_inner_address_decides_for_its_carriers(inner):
    verdict = refusal(str(inner)) is None

    for carrier in (f"::ffff:{inner}", f"64:ff9b::{inner}"):
        assert (refusal(carrier) is None) == verdict


@pytest.mark.parametrize(
    ("permitted", "address", "allowed"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.0.0.1", True),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "64:ff9b::10.1.2.3", True),
        ("10.0.0.0/8", "2002:a01:203::1", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("fd00::/8", "fd12::1", True),
        ("169.254.0.0/16", "169.254.1.1", True),
        ("169.254.0.0/16", "169.254.169.254", False),
        ("0.0.0.0/0", "169.254.169.254", False),
        ("0.0.0.0/0", "::ffff:169.254.169.254", False),
        ("::/0", "fd00:ec2::254", False),
        ("::/0", "::ffff:169.254.169.254", False),
        ("169.254.169.254/32", "169.254.169.254", True),
        ("fe80::/10", "fe80::1%eth0", False),
    ],
)
def test_an_operator_permits_networks_but_metadata_services_only_by_name(
    permitted, address, allowed
):
    assert (refusal(address, networks([permitted])) is None) == allowed


def test_an_unreadable_network_is_an_error():
    with pytest.raises(InvalidParameters, match=r"10\.0\.0\.1/8"):
        parse_networks(["10.0.0.1/8"])


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://a.b.localhost:8443/",
        "https://127.0.0.1/",
        "https://127.0.0.1./",
        "https://[::1]/",
        "https://[::ffff:a00:1]/",
        "https://\u24db\u24de\u24d2\u24d0\u24db\u24d7\u24de\u24e2\u24e3/",
        "https://local\u00adhost/",
        "https://127\uff0e0\uff0e0\uff0e1/",
    ],
)
def test_a_url_to_this_host_or_without_tls_is_refused(url):
    with pytest.raises(NotAuthorized):
        UrlGuard().check(url)


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost.example.com/",
        "https://notlocalhost/",
        "https://my_bucket.example.com/",
        "https://8.8.8.8/",
        "https://xn--bcher-kva.example/",
    ],
)
def test_a_url_elsewhere_passes_the_first_check(url):
    assert UrlGuard().check(url)


def test_plain_http_and_localhost_can_be_permitted():
    guard = UrlGuard(allow_http=True, allow_private=["127.0.0.0/8"])

    assert guard.check("http://localhost:8080/").port == 8080
    with pytest.raises(NotAuthorized):
        guard.check("ftp://localhost/")


def test_one_bad_address_spoils_a_name():
    with pytest.raises(NotAuthorized, match=r"10\.0\.0\.1.*private"):
        UrlGuard().check_addresses("two.example.com", ["93.184.215.14", "10.0.0.1"])


def test_a_name_without_an_address_cannot_be_reached():
    with pytest.raises(ExternalService, match=r"nowhere\.example"):
        UrlGuard().check_addresses("nowhere.example", [])


def test_the_order_of_answers_does_not_matter():
    guard = UrlGuard()

    first = guard.check_addresses("a.example", ["2606:4700::1", "1.1.1.1", "1.0.0.1"])
    second = guard.check_addresses("a.example", ["1.0.0.1", "1.1.1.1", "1.1.1.1", "2606:4700::1"])

    assert first == second == ("1.0.0.1", "1.1.1.1", "2606:4700::1")
