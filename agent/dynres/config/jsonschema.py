"""Makes the JSON Schema of a configuration file from the model that validates it."""

from typing import Any, Final

from dynres.config import schema

FILES: Final[dict[str, type[schema.Shape]]] = {
    "resources": schema.Resources,
    "hosts": schema.Hosts,
    "agent": schema.Agent,
    "controller": schema.Controller,
}


def json_schema(file: str) -> dict[str, Any]:
    """The schema of `resources`, `hosts`, `agent` or `controller`. KeyError for another name."""
    made = FILES[file].model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_without_titles(made),
        "title": f"{file}.yaml",
    }


def _without_titles(node: Any) -> Any:
    """Titles that only repeat a key, and `default: null`, tell an editor nothing."""
    if isinstance(node, list):
        return [_without_titles(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {
        key: _without_titles(value)
        for key, value in node.items()
        if not (key == "title" and isinstance(value, str))
        and not (key == "default" and value is None)
    }
    options = made.get("anyOf")
    if isinstance(options, list):
        # A key may be left out, but `key:` without a value is an error.
        left = [option for option in options if option != {"type": "null"}]
        if len(left) == 1:
            del made["anyOf"]
            made = {**left[0], **made}
        else:
            made["anyOf"] = left
    return made
