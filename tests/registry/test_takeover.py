"""Two sessions, one host: the first is asked, and only an answer keeps it."""

import pytest
from handmade import hello, sent

from dynres.controller.registry import Accepted, Registry
from dynres.wire.messages import Alive, Refusal


@pytest.fixture
def hosts() -> Registry:
    made = Registry("listed", ("host1", "host2"), 1e6)
    made.hello(b"first", "10.0.0.1", hello("host1", "s1"), 100.0)
    return made


def taken_by(effects: list[object]) -> list[bytes]:
    return [e.session.peer for e in effects if isinstance(e, Accepted)]


def test_the_first_session_is_asked_before_anything_else(hosts: Registry) -> None:
    effects = hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    assert len(sent(effects, Alive, b"first")) == 1
    assert len(effects) == 1
    assert hosts.of_peer(b"second") is None


def test_when_it_answers_the_second_is_refused_naming_both_addresses(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    (refusal,) = sent(hosts.beat(b"first", 101.9), Refusal, b"second")
    assert refusal.code == "host_taken"
    assert "10.0.0.1" in refusal.reason
    assert "10.0.0.2" in refusal.reason
    assert taken_by(hosts.tick(110.0)) == []
    assert hosts.of_peer(b"first") is not None


def test_when_it_is_silent_for_a_second_it_is_replaced_and_heard_no_more(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    assert taken_by(hosts.tick(101.9)) == []
    effects = hosts.tick(102.0)
    assert taken_by(effects) == [b"second"]
    assert [r.code for r in sent(effects, Refusal, b"first")] == ["replaced"]
    assert hosts.heard(b"first", 102.1) is None
    assert [r.code for r in sent(hosts.beat(b"first", 102.2), Refusal)] == ["unknown"]
    assert hosts.of_peer(b"second") is not None


def test_when_its_connection_is_gone_it_is_replaced_at_once(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    effects = hosts.gone(b"first", 101.0)
    assert taken_by(effects) == [b"second"]
    assert sent(effects, Refusal) == []


def test_a_first_one_known_to_be_gone_is_not_asked(hosts: Registry) -> None:
    hosts.gone(b"first", 100.5)
    effects = hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    assert taken_by(effects) == [b"second"]


def test_an_unreachable_first_one_is_not_asked(hosts: Registry) -> None:
    effects = hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 116.0)
    assert taken_by(effects) == [b"second"]


def test_an_agent_that_said_bye_is_back_at_once(hosts: Registry) -> None:
    hosts.bye(b"first")
    assert taken_by(hosts.hello(b"x", "", hello("host1", "s2"), 100.1)) == [b"x"]


def test_a_third_session_is_refused_while_two_are_contending(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    effects = hosts.hello(b"third", "10.0.0.3", hello("host1", "s3"), 101.1)
    assert [r.code for r in sent(effects, Refusal, b"third")] == ["host_taken"]
    assert taken_by(hosts.tick(102.0)) == [b"second"]


def test_a_claim_whose_connection_is_lost_is_dropped(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    hosts.gone(b"second", 101.1)
    assert taken_by(hosts.tick(103.0)) == []
    assert hosts.of_peer(b"first") is not None


def test_a_claim_that_says_bye_is_dropped(hosts: Registry) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    hosts.bye(b"second")
    assert taken_by(hosts.tick(103.0)) == []


def test_the_claims_of_other_hosts_are_apart(hosts: Registry) -> None:
    hosts.hello(b"other", "", hello("host2", "o1"), 100.0)
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    assert sent(hosts.beat(b"other", 101.1), Refusal) == []
    assert taken_by(hosts.tick(102.0)) == [b"second"]


def test_a_session_that_was_replaced_and_comes_back_has_to_ask_like_anybody(
    hosts: Registry,
) -> None:
    hosts.hello(b"second", "10.0.0.2", hello("host1", "s2"), 101.0)
    hosts.tick(102.0)
    effects = hosts.hello(b"first", "10.0.0.1", hello("host1", "s1"), 103.0)
    assert len(sent(effects, Alive, b"second")) == 1
    (refusal,) = sent(hosts.beat(b"second", 103.1), Refusal, b"first")
    assert refusal.code == "host_taken"
