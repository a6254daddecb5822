"""Every form of a target, and what is said about what is none."""

from __future__ import annotations

import pytest

from cuzkops.errors import UsageError
from cuzkops.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target", "printed"),
    [
        ("local", Target("local"), "local"),
        ("gpu1", Target("gpu1"), "gpu1"),
        ("gpu-1.example.org", Target("gpu-1.example.org"), "gpu-1.example.org"),
        ("my_alias", Target("my_alias"), "my_alias"),
        ("10.0.0.7", Target("10.0.0.7"), "10.0.0.7"),
        ("10.0.0.7:2222", Target("10.0.0.7", None, 2222), "10.0.0.7:2222"),
        ("root@10.0.0.7:40022", Target("10.0.0.7", "root", 40022), "root@10.0.0.7:40022"),
        ("j.doe-2@gpu1", Target("gpu1", "j.doe-2"), "j.doe-2@gpu1"),
        ("::1", Target("::1"), "[::1]"),
        ("[::1]", Target("::1"), "[::1]"),
        ("[::1]:2222", Target("::1", None, 2222), "[::1]:2222"),
        ("root@[fe80::1%eth0]:22", Target("fe80::1%eth0", "root", 22), "root@[fe80::1%eth0]:22"),
        ("ops@2001:db8::7", Target("2001:db8::7", "ops"), "ops@[2001:db8::7]"),
        ("ssh://ops@gpu1:2201", Target("gpu1", "ops", 2201), "ops@gpu1:2201"),
        ("ssh://gpu1/", Target("gpu1"), "gpu1"),
        ("ssh://[::1]:22/", Target("::1", None, 22), "[::1]:22"),
        ("gpu1:65535", Target("gpu1", None, 65535), "gpu1:65535"),
        ("local:22", Target("local", None, 22), "local:22"),
    ],
)
def test_a_target_is_read_and_printed_so_that_it_can_be_read_again(text: str, target: Target, printed: str) -> None:
    assert parse_target(text) == target
    assert str(target) == printed
    assert parse_target(printed) == target


def test_only_the_bare_word_is_this_machine() -> None:
    assert parse_target("local").is_local
    assert not parse_target("local:22").is_local
    assert not parse_target("root@local").is_local


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the host is missing"),
        ("ssh://", "the host is missing"),
        (":22", "the host is missing"),
        ("[]:22", "the host is missing"),
        ("root@", "the host is missing"),
        ("@gpu1", "'' is not a user name"),
        ("gpu1:", "'' is not a port"),
        ("gpu1:abc", "'abc' is not a port"),
        ("gpu1:0", "'0' is not a port"),
        ("gpu1:99999", "'99999' is not a port"),
        ("gpu1:" + "9" * 5000, "9' is not a port"),
        ("gpu1:-1", "'-1' is not a port"),
        ("gpu1:٣", "is not a port"),
        ("ssh://gpu1:22/path", "'22/path' is not a port"),
        ("[::1", "the bracket is not closed"),
        ("[::1]2222", "'2222' follows the bracket"),
        ("[::1]:", "'' is not a port"),
        ("1:2:3", "is not an IPv6 address"),
        ("gpu1:22:33", "is not an IPv6 address"),
        ("-oProxyCommand=x", "is not a host name"),
        ("root@-x", "is not a host name"),
        ("-l@gpu1", "is not a user name"),
        ("a@b@c", "'a@b' is not a user name"),
        ("gpu 1", "is not a host name"),
        (" gpu1", "is not a host name"),
        ("gpu1\n", "is not a host name"),
        ("gpu1;reboot", "is not a host name"),
        ("http://gpu1", "is not a port"),
    ],
)
def test_what_is_no_target_is_refused_with_the_part_that_is_wrong(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text)
    assert what in caught.value.message
    assert caught.value.hint
