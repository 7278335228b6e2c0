"""Digests what a resource means, so that two sides can tell whether they mean the same."""

import hashlib

from dynres.config.model import Resource


def digest(resource: Resource) -> str:
    """16 hex digits over type, unit, order, scope and source; equal exactly where they are."""
    scope = "shared" if resource.shared else "per-host"
    source = "dynamic" if resource.dynamic else "static"
    unit = "-" if resource.unit is None else f"={resource.unit}"
    meaning = "\0".join((resource.type, unit, resource.order, scope, source))
    return hashlib.sha256(meaning.encode()).hexdigest()[:16]
