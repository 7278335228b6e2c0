"""`dynres check` and `dynres schema`: whether a folder is valid, what it means, its keys."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dynres.cli import output
from dynres.cli.options import config_option, json_option, read_folder
from dynres.cli.output import printable

if TYPE_CHECKING:
    from dynres.config.load import Role


@click.command()
@config_option
@click.option(
    "--role",
    type=click.Choice(["agent", "controller"]),
    help="Check as this side reads it. Default: agent where the folder has agent.yaml and "
    "neither hosts.yaml nor controller.yaml, else controller.",
)
@json_option
def check(config: Path, role: "Role | None", as_json: bool) -> None:
    """Validate a folder: every fault at once, or what each resource means, in words.

    \b
    Example:
      dynres check --config examples/quickstart
      dynres check --config /etc/dynres --role agent --json
    """
    from dynres.config.load import default_role
    from dynres.config.words import readings

    side = role or default_role(config)
    loaded = read_folder(config, side, everything=True)
    said = list(readings(loaded.configuration))
    for warning in loaded.warnings:
        output.tell(f"warning: {printable(str(warning))}")
    if as_json:
        output.document(
            {
                "config": str(config),
                "role": side,
                "resources": [
                    {"resource": r.name, "reading": text, "place": str(r.place)} for r, text in said
                ],
                "warnings": [warning.as_json() for warning in loaded.warnings],
            }
        )
        return
    for resource, text in said:
        output.say(f"{resource.name}: {printable(text)}")
    count = len(said)
    output.say(f"{config} is valid for the {side}: {count} resource{'s' if count != 1 else ''}")


@click.command()
@click.argument("file", type=click.Choice(["resources", "hosts", "agent", "controller"]))
@json_option
def schema(file: str, as_json: bool) -> None:
    """Print the JSON Schema of a configuration file, for editors.

    \b
    Example:
      dynres schema resources > resources.schema.json
      # first line of resources.yaml:
      # yaml-language-server: $schema=resources.schema.json
    """
    from dynres.config.jsonschema import json_schema

    output.document(json_schema(file))
