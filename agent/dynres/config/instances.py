"""How the instances of a shared resource are called: by name, by resource, or by location."""

from collections.abc import Iterable

import msgspec

from dynres.config.hosts import fold
from dynres.config.model import Entry, Location


def named_instances(resource: str, entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """The entries of a shared resource, each with the id of its instance."""
    known = tuple(entries)
    alone = len(known) == 1
    return tuple(
        msgspec.structs.replace(entry, instance=shared_id(resource, entry, alone=alone))
        for entry in known
    )


def shared_id(resource: str, entry: Entry, *, alone: bool) -> str:
    """The id of the instance that an entry of a shared resource makes; `alone`: its only one."""
    if entry.instance is not None:
        return entry.instance
    if entry.name is not None:
        return entry.name
    return resource if alone else location_text(entry.location)


def location_text(location: Location) -> str:
    """A folded location in words of a location: `others,host[1-2]`, `all,~host3`."""
    words = ["all"] * location.everyone + ["others"] * location.rest
    words += [fold(location.hosts)] if location.hosts else []
    words += [f"~{fold(location.minus)}"] if location.minus else []
    return ",".join(words)
