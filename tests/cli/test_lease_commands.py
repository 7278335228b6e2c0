"""The commands of those who hold amounts, as a shell sees them: exit codes and documents."""

import json
import subprocess
import sys

import pytest
from standing import standing

from dynres.cli.asked import read_as_of

RESOURCES = """
resources:
  - name: iris
    flags: [shared]
    resourcemap:
      - {value: 10, location: [all]}
  - name: scratch
    unit: GB
    flags: [consumable]
    resourcemap:
      - {value: 100, location: [default]}
  - name: temp
    resourcemap:
      - {value: 20, location: [default]}
"""
HOSTS = "hosts: [{name: 'h[1-4]'}]\ngroups: {some: ['h[2-3]']}\n"


pytestmark = pytest.mark.xdist_group("lease commands")  # one controller for all of them


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    with standing(tmp_path_factory.mktemp("standing"), RESOURCES, HOSTS) as made:
        yield made


def document(done):
    return json.loads(done.stdout)


def test_acquire_says_by_its_exit_code_what_was_answered(here):
    asked = ("acquire", "--job", "codes", "--host", "h1", "--json")
    granted = here.call(*asked, "--need", "iris=4")
    assert (granted.returncode, document(granted)["answer"]) == (0, "granted")
    wait = here.call(*asked, "--need", "iris=7")
    assert (wait.returncode, document(wait)["answer"]) == (75, "wait")
    never = here.call(*asked, "--need", "iris=11")
    assert (never.returncode, document(never)["answer"]) == (69, "never")
    strange = here.call(*asked, "--need", "irsi=1")
    assert (strange.returncode, document(strange)["error"]["code"]) == (1, "unknown_resource")
    foreign = here.call(
        "release", "--owner", "x", "--lease", document(granted)["leases"][0]["lease"]
    )
    assert foreign.returncode == 77
    assert here.call("release", "--job", "codes").returncode == 0
    again = here.call("release", "--job", "codes", "--json")
    assert (again.returncode, document(again)) == (0, {"released": []})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--job", "1", "--host", "h1", "--need", "iris=x"), "iris=x"),
        (("--job", "1", "--host", "h1", "--need", "iris"), "RESOURCE=AMOUNT"),
        (("--job", "1", "--host", "h1", "--need", "iris=1/core"), "/job, /host or /slot"),
        (("--job", "1", "--host", "h1"), "Missing option --need."),
        (("--need", "iris=1"), "Missing option --job and --host."),
        (("--job", "1", "--host", "h1", "--need", "iris=1", "--ttl", "soon"), "duration"),
    ],
)
def test_what_is_no_request_is_a_usage_error_that_says_what_is_expected(dynres, arguments, told):
    done = dynres("acquire", *arguments)
    assert done.returncode == 2
    assert told in done.stderr


def test_an_empty_job_is_no_job(dynres):
    done = dynres("acquire", "--job", "", "--host", "h1", "--need", "iris=1")
    assert done.returncode == 2
    assert "Missing option --job" in done.stderr


def test_no_controller_is_111(dynres):
    done = dynres("release", "--job", "1", "--controller", "tcp://127.0.0.1:1")
    assert done.returncode == 111


def test_what_is_asked_and_given_back_is_said_in_words(here):
    granted = here.call("acquire", "--job", "words", "--host", "h1", "--need", "iris=1")
    assert granted.stdout.startswith("granted to job words: 1 lease\n")
    given = here.call("release", "--job", "words")
    assert given.stdout.startswith("released: 1 lease\n")
    assert given.stdout.endswith("  iris 1 for h1 of job words\n")
    strange = here.call("acquire", "--job", "words", "--host", "h1", "--need", "scratch=2XB")
    assert (
        strange.stderr
        == "dynres: scratch=2XB: no amount of scratch: XB cannot be converted to GB\n"
    )


def test_a_suspend_that_gives_nothing_back_says_why(here):
    here.call("acquire", "--job", "kept", "--host", "h1", "--need", "iris=1")
    said = here.call("suspend", "--job", "kept").stdout
    here.call("release", "--job", "kept")
    assert "holds nothing with flag release" in said


def test_an_empty_list_of_hosts_says_who_is_left_out_and_how_to_see_them(here):
    for words in ((), ("--where", "iris: 1")):
        done = here.call("hosts", *words)
        assert done.returncode == 0
        assert "h[1-4]; --all-hosts shows them" in done.stderr
        assert here.call("hosts", *words, "--all-hosts").stderr == ""


def test_slots_groups_and_units_are_charged_as_written(here):
    done = here.call(
        *("acquire", "--job", "slots", "--host", "h1*4,@some*2", "--json"),
        *("--need", "scratch=512MB/slot"),
    )
    held = {one["host"]: one["amount"] for one in document(done)["leases"]}
    assert held == {"h1": 2, "h2": 1, "h3": 1}
    here.call("release", "--job", "slots")


def test_lines_in_are_answered_by_lines_in_the_same_order(here):
    lines = [
        {"job": "a", "host": "h1", "need": {"iris": 1}},
        {"job": "b", "host": ["h1*2", "h2"], "need": ["iris=0.5"]},
        {"job": "c", "host": "h1", "need": {"iris": 99}},
        {"jobb": "c"},
        {"job": "d", "host": "h1", "need": {"iris": 0.25}, "ttl": "5m"},
    ]
    text = "\n".join([*map(json.dumps, lines[:4]), "no json", json.dumps(lines[4])])
    done = here.call("acquire", "-", stdin=text)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [a.get("answer") or a["error"]["code"] for a in answers] == [
        *("granted", "granted", "never", "usage", "usage", "granted"),
    ]
    assert answers[5]["leases"][0]["expires"] is not None
    assert done.returncode == 69
    jobs = "\n".join(json.dumps({"job": job}) for job in "abcd")
    done = here.call("release", "-", stdin=jobs)
    counts = [len(json.loads(line)["released"]) for line in done.stdout.splitlines()]
    assert (done.returncode, counts) == (0, [1, 1, 0, 1])


def test_a_line_that_says_two_things_or_half_of_one_takes_nothing(here):
    good = '"job": "9", "host": "h1", "need": {"iris": 1}'
    lines = [
        "{" + good + ', "running": "yes"}',
        "{" + good + ', "job": "10"}',
        "{" + good + ', "slots": true}',
        "[" * 100_000,
        "{" + good + ', "slots": 100000000000000000000}',
        "{" + good + ', "request": "\\ud800"}',
        '{"job": "9", "host": "h1", "need": {"iris": "0e99999999999999999999"}}',
    ]
    done = here.call("acquire", "-", stdin="\n".join(lines) + "\n")
    told = [json.loads(line)["error"]["message"] for line in done.stdout.splitlines()]
    assert told == [
        "running: expected true or false, got 'yes'",
        "job: given twice; expected each key once",
        "slots: expected a whole number, got True",
        "expected a JSON object, got one nested too deeply",
        "a number is too large for a request",
        "'\\ud800' is no UTF-8 text",
        "iris=0e99999999999999999999: expected an amount, got '0e99999999999999999999': "
        "an exponent of more than six digits",
    ]
    assert done.returncode == 2
    held = document(here.call("leases", "--json"))["leases"]
    assert [lease for lease in held if lease["job"] in {"9", "10"}] == []


def test_each_line_is_answered_while_the_pipe_stays_open(here):
    process = subprocess.Popen(
        [sys.executable, "-m", "dynres", "acquire", "-", "--controller", here.endpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process:
        for number in range(3):
            asked = {"job": f"pipe{number}", "host": "h1", "need": {"iris": 1}}
            process.stdin.write(json.dumps(asked) + ("\n" if number < 2 else ""))
            process.stdin.flush()
            if number == 2:  # the last line need not end
                process.stdin.close()
            assert json.loads(process.stdout.readline())["job"] == f"pipe{number}"
    assert process.returncode == 0
    for number in range(3):
        here.call("release", "--job", f"pipe{number}")


def test_overrides_and_closed_hosts_are_set_shown_and_taken_back(here):
    done = here.call(
        *("set", "iris", "3", "--pool", "iris", "--reason", "audit", "--for", "1h", "--json")
    )
    [override] = document(done)["overrides"]
    assert list(override) == [
        *("resource", "value", "host", "instance", "who", "reason", "since", "until"),
    ]
    assert (override["value"], override["instance"], override["reason"]) == (3, "iris", "audit")
    told = here.call("explain", "h1", "iris").stdout
    assert "has set it at" in told
    assert "audit" in told
    done = document(here.call("unset", "iris", "--pool", "iris", "--json"))
    assert done == {"overrides": [], "hosts": [], "pools": ["iris"]}
    here.call("set", "iris", "3", "--pool", "iris", "--reason", "audit")
    told = here.call("unset", "iris").stdout
    assert told == "iris is as declared or measured again for pool iris\n"
    assert here.call("unset", "iris").stdout == "nothing to do\n"
    assert here.call("host", "close", "h[1-2]", "--reason", "rack").returncode == 0
    detail = document(here.call("hosts", "h1", "--all-hosts", "--json"))
    assert detail["hosts"] == ["h1"]
    assert "never, closed" in here.call("hosts", "h1", "--all-hosts").stdout
    assert "h[1-2]" in here.call("host", "open", "@some", "h1").stdout
    whats = [e["what"] for e in document(here.call("history", "--json"))["entries"]]
    assert {"set", "unset", "closed", "opened"} <= set(whats)


def test_a_history_of_a_pool_that_is_none_says_so(here):
    mistyped = here.call("history", "--pool", "irsi")
    assert (mistyped.returncode, len(mistyped.stdout.splitlines())) == (0, 1)
    assert "no pool irsi now" in mistyped.stderr
    assert "did you mean iris?" in mistyped.stderr
    for known in ("iris", "iris/iris"):
        assert here.call("history", "--pool", known, "--since", "0.001s").stderr == ""


def test_a_negative_value_is_set_as_any_other_and_a_mistyped_option_is_still_told(here):
    asked = ("set", "temp", "-4.5", "--host", "h1", "--reason", "frost")
    assert document(here.call(*asked, "--json"))["overrides"][0]["value"] == -4.5
    mistyped = here.call("set", "temp", "1", "--hots", "h1", "--reason", "x")
    assert mistyped.returncode == 2
    assert "--hots" in mistyped.stderr
    assert here.call("unset", "temp").returncode == 0


def test_reconcile_wants_to_know_when_the_list_was_begun(here):
    here.call("acquire", "--job", "gone", "--host", "h1", "--need", "iris=1")
    empty = here.call("reconcile", "--jobs", "-", "--as-of", "-0.001s", stdin="")
    assert (empty.returncode, "--allow-empty" in empty.stderr) == (2, True)
    assert here.call("reconcile", "--jobs", "-", stdin="1\n").returncode == 2
    done = here.call("reconcile", "--jobs", "-", "--as-of", "-0.001s", "--json", stdin="1\n2\n")
    assert [one["job"] for one in document(done)["released"]] == ["gone"]


def test_times_are_read_as_rfc_3339_as_seconds_or_as_ago():
    assert read_as_of("1700000000") == 1_700_000_000
    assert read_as_of("2023-11-14T22:13:20Z") == 1_700_000_000
    for text in ("2023-11-14T22:13:20", "yesterday", "-soon"):
        with pytest.raises(ValueError, match=r"expected|not a duration"):
            read_as_of(text)


def test_watching_without_a_terminal_prints_what_is_new(here):
    process = here.begin("pools", "--watch")
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first.startswith("pool iris: 10 of 10 free")
    here.call("acquire", "--job", "seen", "--host", "h1", "--need", "iris=4")
    while not (line := process.stdout.readline()).startswith("pool iris"):
        assert line
    assert "6 of 10 free" in line
    process.terminate()
    process.communicate()
    here.call("release", "--job", "seen")
