"""An entry with a probe of its own, over a group, needs a name where agents cannot resolve it."""

from pathlib import Path

from dynres.config.load import load

RESOURCES = """
resources:
  - name: lic
    flags: [shared]
    interval: 5s
    measures: total
    probe: {command: [/bin/lic]}
    resourcemap:
      - {NAME location: ["@eda"], reporter: [h1], probe: {env: {PORT: "1"}}}
      - {location: [h3], reporter: [h1], probe: {env: {PORT: "2"}}}
"""
HOSTS = "groups: {eda: [h1, h2]}\nhosts: [{name: 'h[1-3]'}]"


def read(folder: Path, name: str):
    (folder / "resources.yaml").write_text(RESOURCES.replace("NAME", name))
    (folder / "hosts.yaml").write_text(HOSTS)
    return load(folder, "controller")


def test_a_nameless_one_is_warned_of(tmp_path: Path):
    (warning,) = read(tmp_path, "").warnings
    assert "an agent without hosts.yaml cannot tell this entry" in str(warning)
    assert str(warning).startswith("resources.yaml:9:")


def test_a_named_one_is_fine_and_is_known_by_its_name_on_both_sides(tmp_path: Path):
    loaded = read(tmp_path, "name: eda,")
    assert loaded.warnings == ()
    lic = loaded.configuration.resource("lic")
    assert [entry.instance for entry in lic.entries] == ["eda", "h3"]
    (tmp_path / "hosts.yaml").unlink()
    lic = load(tmp_path, "agent").configuration.resource("lic")
    assert [entry.instance for entry in lic.entries] == ["eda", "h3"]
