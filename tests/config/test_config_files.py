"""Which files are read, and what is said about those that cannot be."""

import os
from pathlib import Path

import pytest

from dynres.config.faults import ConfigError
from dynres.config.load import load

ONE = "resources:\n  - {name: %s, resourcemap: [{value: 5, location: [host1]}]}\n"


def write(folder: Path, name: str, content: str | bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def names(folder: Path) -> list[str]:
    configuration = load(folder, "controller").configuration
    return [r.name for r in configuration.resources if not r.builtin]


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load(folder, "controller", everything=True)
    return str(raised.value)


def test_only_resources_yaml_is_required(tmp_path: Path):
    write(tmp_path, "resources.yaml", ONE % "a")
    assert names(tmp_path) == ["a"]
    (tmp_path / "resources.yaml").unlink()
    assert refusal(tmp_path).startswith("resources.yaml:1:1: file: expected a file, got no such")


def test_only_yaml_and_yml_are_read_from_resources_d_without_leftovers(tmp_path: Path):
    write(tmp_path, "resources.yaml", ONE % "a")
    write(tmp_path, "resources.d/20.yaml", ONE % "c")
    write(tmp_path, "resources.d/10.yml", ONE % "b")
    for leftover in (
        "x.yaml~", ".x.yaml.swp", ".x.yaml", "x.yaml.dpkg-old", "x.yaml.rpmsave", "#x.yaml#",
        ".#x.yaml", "README", "x.yaml.bak",
    ):  # fmt: skip
        write(tmp_path, f"resources.d/{leftover}", "not: [yaml")
    assert names(tmp_path) == ["a", "b", "c"]


def test_a_byte_order_mark_and_crlf_are_accepted(tmp_path: Path):
    text = (ONE % "a").replace("\n", "\r\n")
    write(tmp_path, "resources.yaml", b"\xef\xbb\xbf" + text.encode())
    made = load(tmp_path, "controller").configuration.resources[0]
    assert str(made.place) == "resources.yaml:2:5"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"resources: \xff\n", "resources.yaml:1:12: text encoding: expected UTF-8, got byte 0xff"),
        (b"a: 1\nb: \x00\n", "resources.yaml:2:4: control character: expected text, got U+0000"),
        (b"a: 1\nb: \xc2\x80", "resources.yaml:2:4: control character: expected text, got U+0080"),
        (b"\xff\xfea\x00", "resources.yaml:1:1: text encoding: expected UTF-8, got UTF-16"),
        (b"\xef\xbb\xbf\r\n", "resources.yaml:1:1: file is empty"),
        (b"#" * (9 * 1024 * 1024), "resources.yaml:1:1: file is too large: expected at most 8 MiB"),
    ],
    ids=["not UTF-8", "NUL", "C1", "UTF-16", "empty", "9 MiB"],
)
def test_bytes_that_are_no_text_are_named_with_their_place(tmp_path: Path, data: bytes, said: str):
    write(tmp_path, "resources.yaml", data)
    assert refusal(tmp_path).startswith(said)


def test_a_list_of_a_million_texts_is_a_fault_and_no_flood(tmp_path: Path):
    write(tmp_path, "resources.yaml", "resources: [" + "a," * 200_000 + "a]\n")
    with pytest.raises(ConfigError) as raised:
        load(tmp_path, "controller")
    assert len(raised.value.faults) == 1001
    assert "more faults, not shown" in raised.value.faults[-1].what


def test_a_folder_or_a_pipe_in_place_of_a_file_is_a_fault(tmp_path: Path):
    (tmp_path / "resources.yaml").mkdir()
    os.mkfifo(tmp_path / "hosts.yaml")
    said = refusal(tmp_path)
    assert "resources.yaml:1:1: file: expected a file, got a folder" in said
    assert "hosts.yaml:1:1: file: expected a file, got no regular file" in said


def test_a_link_to_nothing_is_a_fault_even_for_an_optional_file(tmp_path: Path):
    write(tmp_path, "resources.yaml", ONE % "a")
    (tmp_path / "agent.yaml").symlink_to("/nowhere/agent.yaml")
    (tmp_path / "resources.d").mkdir()
    (tmp_path / "resources.d" / "x.yaml").symlink_to("gone.yaml")
    said = refusal(tmp_path)
    assert "agent.yaml:1:1: file: expected a file, got a link to /nowhere/agent.yaml" in said
    assert "resources.d/x.yaml:1:1: file: expected a file, got a link to gone.yaml" in said


def test_an_unreadable_file_is_a_fault_that_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, "resources.yaml", ONE % "a")
    really_open = os.open

    def refuse(path, *arguments, **options):
        if str(path).endswith("resources.yaml"):
            raise PermissionError(13, "Permission denied")
        return really_open(path, *arguments, **options)

    monkeypatch.setattr("dynres.config.folder.os.open", refuse)
    assert refusal(tmp_path) == (
        "resources.yaml:1:1: file: expected a readable file, got permission denied "
        "(let dynres's user read it)"
    )


def test_a_folder_that_is_missing_or_a_file_is_a_fault(tmp_path: Path):
    assert "expected a folder with resources.yaml, got no such file" in refusal(tmp_path / "no")
    write(tmp_path, "plain", "text")
    assert "expected a folder with resources.yaml, got a file" in refusal(tmp_path / "plain")


def test_comments_alone_leave_the_settings_at_their_defaults(tmp_path: Path):
    write(tmp_path, "resources.yaml", ONE % "a")
    write(tmp_path, "agent.yaml", "# host: host1\n")
    write(tmp_path, "controller.yaml", "# listen: 0.0.0.0\n")
    configuration = load(tmp_path, "controller", everything=True).configuration
    assert configuration.agent.controllers == ("tcp://127.0.0.1:5750",)
    assert configuration.controller.listen == "127.0.0.1"


def test_the_files_of_the_other_role_are_not_read_unless_asked_for(tmp_path: Path):
    write(tmp_path, "resources.yaml", ONE % "a")
    write(tmp_path, "controller.yaml", "nonsense: 1\n")
    assert load(tmp_path, "agent").configuration.resource("a")
    with pytest.raises(ConfigError):
        load(tmp_path, "agent", everything=True)


def test_ten_thousand_resources_load(tmp_path: Path):
    items = [
        f"  - {{name: r{n}, flags: [shared], resourcemap: [{{value: {n}, location: [host{n}]}}]}}"
        for n in range(10_000)
    ]
    write(tmp_path, "resources.yaml", "resources:\n" + "\n".join(items) + "\n")
    assert len(names(tmp_path)) == 10_000


def test_a_hosts_file_that_cannot_be_read_makes_no_group_unknown(tmp_path: Path):
    write(
        tmp_path,
        "resources.yaml",
        'resources: [{name: a, resourcemap: [{value: 1, location: ["@eda"]}]}]\n',
    )
    (tmp_path / "hosts.yaml").symlink_to("gone.yaml")
    assert refusal(tmp_path).splitlines() == [
        "hosts.yaml:1:1: file: expected a file, got a link to gone.yaml, which is not there "
        "(mend or remove the link)"
    ]
