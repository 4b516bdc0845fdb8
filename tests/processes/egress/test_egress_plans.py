"""What a program with a list of hosts finds in its network namespace."""

from __future__ import annotations

from ipaddress import ip_address

from patchbay.processes.egress.egress_list import parse_egress_list
from patchbay.processes.egress.egress_plans import plan_egress

ENTRIES = [
    "b.example:80",
    "b.example:443",
    "a.example:443",
    "10.0.0.5:8080",
    "localhost:5432",
    "*.c.example:443",
    "[2001:db8::1]:1",
]


def test_each_destination_but_wildcards_and_ipv6_has_a_socket() -> None:
    plan = plan_egress(parse_egress_list(ENTRIES))
    assert dict(zip(plan.listeners, plan.targets, strict=True)) == {
        ("127.0.0.1", 3128): None,
        ("10.0.0.5", 8080): ("10.0.0.5", 8080),
        ("7.86.0.1", 443): ("a.example", 443),
        ("7.86.0.2", 80): ("b.example", 80),
        ("7.86.0.2", 443): ("b.example", 443),
        ("127.0.0.1", 5432): ("localhost", 5432),
        ("::1", 5432): ("localhost", 5432),
    }
    assert plan.addresses == ("10.0.0.5", "7.86.0.1", "7.86.0.2")
    assert {"127.0.0.1 localhost", "7.86.0.1 a.example", "7.86.0.2 b.example"} <= {*plan.hosts.splitlines()}
    assert "c.example" not in plan.hosts


def test_the_port_of_the_proxy_is_one_that_the_list_does_not_name() -> None:
    plan = plan_egress(parse_egress_list(["localhost:3128", "127.0.0.1:3129", "10.0.0.5:3130"]))
    assert plan.listeners[0] == ("127.0.0.1", 3130) and plan.targets[0] is None
    assert plan.environment["HTTPS_PROXY"] == plan.environment["all_proxy"] == "http://127.0.0.1:3130"
    assert len({*plan.listeners}) == len(plan.listeners)


def test_many_hosts_have_an_address_each() -> None:
    plan = plan_egress(parse_egress_list([f"h{number}.example" for number in range(100)]))
    assert len({address for address, _ in plan.listeners[1:]}) == 100
    assert plan_egress(parse_egress_list([])).targets == (None,)


def test_programs_take_the_address_of_a_name_for_a_public_one() -> None:
    """mcp-server-fetch and others refuse names that lead to loopback, private or reserved addresses."""
    plan = plan_egress(parse_egress_list([f"h{number}.example" for number in range(100)]))
    assert len(plan.addresses) == 100
    assert all(ip_address(one).is_global and not ip_address(one).is_reserved for one in plan.addresses)


def test_the_address_of_a_name_is_none_that_the_list_names() -> None:
    plan = plan_egress(parse_egress_list(["7.86.0.1:443", "a.example:443"]))
    assert dict(zip(plan.listeners, plan.targets, strict=True)) == {
        ("127.0.0.1", 3128): None,
        ("7.86.0.1", 443): ("7.86.0.1", 443),
        ("7.86.0.2", 443): ("a.example", 443),
    }
    assert plan.addresses == ("7.86.0.1", "7.86.0.2")
