"""docs/configuration.md names every key of every file, and its examples load."""

import re
from pathlib import Path

import pytest

from dynres.config import schema
from dynres.config.load import load

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
SECTIONS = {
    "resources.yaml": schema.Resources,
    "A resource": schema.Resource,
    "An entry of `resourcemap`": schema.Entry,
    "A probe": schema.NamedProbe,
    "hosts.yaml": schema.Hosts,
    "A host": schema.Host,
    "A value of a host": schema.HostValue,
    "agent.yaml": schema.Agent,
    "controller.yaml": schema.Controller,
    "The metrics page": schema.Metrics,
}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_and_no_other_is_documented_where_it_belongs(title: str):
    parts = re.split(r"^##+ ", PAGE, flags=re.MULTILINE)
    section = next(part for part in parts if part.startswith(title + "\n"))
    table = section[section.index("| key |") :].split("\n\n")[0]
    keys = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(keys) == set(SECTIONS[title].model_fields)


def test_the_examples_load(tmp_path: Path):
    examples = dict(re.findall(r"```yaml (\w+)\n(.*?)```", PAGE, re.DOTALL))
    quota = "  - {name: host_quota, resourcemap: [{value: 5, location: [default]}]}\nprobes:"
    examples["resources"] = examples["resources"].replace("probes:", quota)
    for name, text in examples.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    loaded = load(tmp_path, "controller", everything=True)
    assert loaded.warnings == ()
    assert loaded.configuration.agent.host == "node001"


def test_the_smaller_examples_load_too(tmp_path: Path):
    for text in re.findall(r"```yaml\n(resources:.*?)```", PAGE, re.DOTALL):
        (tmp_path / "resources.yaml").write_text(text)
        assert load(tmp_path, "controller", everything=True).warnings == ()
