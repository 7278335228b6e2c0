"""Who may register, and what is known of a host over time."""

import pytest
from handmade import hello, sent

from dynres.controller.registry import Accepted, Forgotten, Registry
from dynres.wire.messages import OLDEST, VERSION, Alive, Refusal, SendAll, Stamp

DAY = 86400.0


def registry(rule: str = "listed", *declared: str) -> Registry:
    return Registry(rule, declared or ("host1", "host2"), 7 * DAY)  # type: ignore[arg-type]


def accepted(effects: list[object]) -> list[str]:
    return [effect.session.host for effect in effects if isinstance(effect, Accepted)]


def refusal(effects: list[object]) -> Refusal:
    (found,) = sent(effects, Refusal)
    return found


def test_a_declared_host_is_never_seen_until_its_agent_registers() -> None:
    hosts = registry()
    assert hosts.state("host1", 0.0) == "never"
    assert accepted(hosts.hello(b"a", "10.0.0.1", hello("host1"), 0.0)) == ["host1"]
    assert hosts.state("host1", 0.0) == "up"
    assert hosts.state("host2", 0.0) == "never"


def test_a_host_is_unreachable_after_three_missed_heartbeats() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 0.0)
    hosts.beat(b"a", 5.0)
    assert hosts.state("host1", 20.0) == "up"
    assert hosts.state("host1", 20.1) == "unreachable"
    hosts.beat(b"a", 21.0)
    assert hosts.state("host1", 21.0) == "up"


def test_an_agent_that_ends_on_purpose_is_unreachable_at_once() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 0.0)
    hosts.bye(b"a")
    assert hosts.state("host1", 0.0) == "unreachable"
    assert hosts.of_peer(b"a") is None


def test_listed_refuses_an_unknown_host_with_a_near_miss_and_what_to_do() -> None:
    near = refusal(registry().hello(b"a", "", hello("hots1"), 0.0))
    assert near.code == "not_listed"
    assert near.reason == "host hots1 is not listed: did you mean host1?"
    far = refusal(registry().hello(b"a", "", hello("elsewhere"), 0.0))
    assert "hosts.yaml" in far.reason


def test_open_takes_any_host() -> None:
    hosts = registry("open")
    assert accepted(hosts.hello(b"a", "", hello("elsewhere"), 0.0)) == ["elsewhere"]
    assert list(hosts.hosts()) == ["host1", "host2", "elsewhere"]


@pytest.mark.parametrize("name", ["", "a b", "all", "default", "others", "h\n", "x" * 254, "~h"])
@pytest.mark.parametrize("rule", ["listed", "open"])
def test_what_is_no_host_name_is_refused(rule: str, name: str) -> None:
    assert refusal(registry(rule).hello(b"a", "", hello(name), 0.0)).code == "not_listed"


def test_a_short_and_a_full_name_are_one_host() -> None:
    hosts = registry("listed", "h1.example.org", "h2")
    assert accepted(hosts.hello(b"a", "", hello("h1"), 0.0)) == ["h1.example.org"]
    assert accepted(hosts.hello(b"b", "", hello("h2.example.org"), 0.0)) == ["h2"]


def test_a_short_name_of_two_hosts_is_refused_naming_both() -> None:
    hosts = registry("listed", "h1.a", "h1.b")
    reason = refusal(hosts.hello(b"a", "", hello("h1"), 0.0)).reason
    assert "h1.a" in reason
    assert "h1.b" in reason


@pytest.mark.parametrize(("oldest", "newest"), [(VERSION + 1, VERSION + 2), (0, 0)])
def test_an_agent_without_a_common_version_is_refused(oldest: int, newest: int) -> None:
    message = hello("host1", oldest=oldest, newest=newest)
    assert refusal(registry().hello(b"a", "", message, 0.0)).code == "version"


@pytest.mark.parametrize("newest", [OLDEST, VERSION, VERSION + 1])
def test_the_version_is_the_newest_that_both_speak(newest: int) -> None:
    effects = registry().hello(b"a", "", hello("host1", newest=newest), 0.0)
    (effect,) = effects
    assert isinstance(effect, Accepted)
    assert effect.session.version == min(newest, VERSION)


def test_the_boot_id_is_kept() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1", boot_id="boot7"), 0.0)
    session = hosts.session("host1")
    assert session is not None
    assert session.boot_id == "boot7"
    assert session.born == -12.0


def test_a_reconnection_of_the_same_session_needs_no_question() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 0.0)
    effects = hosts.hello(b"b", "", hello("host1"), 1.0)
    assert accepted(effects) == ["host1"]
    assert sent(effects, Alive) == []
    assert hosts.of_peer(b"a") is None


def test_each_session_gets_a_stamp_every_heartbeat() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 100.0)
    times = []
    for tenth in range(1, 160):
        now = 100.0 + tenth / 10
        hosts.beat(b"a", now)
        times += [stamp.stamp for stamp in sent(hosts.tick(now), Stamp, b"a")]
    assert times == [105.0, 110.0, 115.0]


def test_a_session_that_sends_no_full_report_is_asked_for_one_again_and_again() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 100.0)
    asked = [now for now in range(101, 113) if sent(hosts.tick(float(now)), SendAll)]
    assert asked == [105, 110]


def test_a_beat_without_a_session_is_told_to_say_hello() -> None:
    assert refusal(registry().beat(b"x", 0.0)).code == "unknown"


def test_an_unlisted_host_is_forgotten_after_a_week_without_its_agent() -> None:
    hosts = registry("open")
    hosts.hello(b"a", "", hello("elsewhere"), 0.0)
    hosts.hello(b"b", "", hello("host1"), 0.0)
    assert not any(isinstance(e, Forgotten) for e in hosts.tick(7 * DAY))
    assert Forgotten("elsewhere") in hosts.tick(7 * DAY + 1)
    assert list(hosts.hosts()) == ["host1", "host2"]
    assert hosts.state("host1", 7 * DAY + 1) == "unreachable"


def test_after_a_reload_a_host_that_is_no_longer_listed_has_to_leave() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 0.0)
    hosts.hello(b"b", "", hello("host2"), 0.0)
    hosts.configure("listed", ("host2",), 7 * DAY)
    effects = hosts.unwelcome()
    assert [r.code for r in sent(effects, Refusal, b"a")] == ["not_listed"]
    assert Forgotten("host1") in effects
    assert hosts.of_peer(b"b") is not None


def test_one_connection_that_names_another_host_gives_up_the_first() -> None:
    hosts = registry()
    hosts.hello(b"a", "", hello("host1"), 0.0)
    hosts.hello(b"a", "", hello("host2"), 1.0)
    assert hosts.state("host1", 1.0) == "unreachable"
    assert hosts.state("host2", 1.0) == "up"


def test_equal_definitions_of_many_agents_are_kept_once() -> None:
    hosts = registry("open")
    for number in range(3):
        hosts.hello(b"%d" % number, "", hello(f"n{number}", definitions={"a": "1"}), 0.0)
    kept = {id(s.definitions) for s in hosts.sessions()}
    assert len(kept) == 1
