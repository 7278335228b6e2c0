"""Decides which entry of a resourcemap covers a host; pure, so that the agent may ask too."""

from dynres.config.model import Entry, Resource


class Cover:
    """One resource's entries, indexed by the hosts that they name.

    The entry that names the host wins, then `all`, then `default` or `others`, each without its
    exclusions. An exclusion by a group that cannot be resolved yet makes its entry cover nobody
    yet. Hosts are asked for by canonical name and are taken for worker hosts.
    """

    __slots__ = ("_entries", "_gone", "_named", "everyone", "rest")

    def __init__(self, resource: Resource) -> None:
        self._entries = resource.entries
        self._named: dict[str, int] = {}
        self._gone: dict[int, frozenset[str]] = {}
        self.everyone: int | None = None
        """Index of the entry over `all`."""
        self.rest: int | None = None
        """Index of the entry over `default` or `others`."""
        for index, entry in enumerate(self._entries):
            location = entry.location
            if any(group.startswith("~") for group in location.unresolved):
                continue
            if location.everyone:
                self.everyone = index
            if location.rest:
                self.rest = index
            self._gone[index] = frozenset(location.minus)
            self._named.update(dict.fromkeys(location.hosts, index))

    def index_for(self, host: str) -> int | None:
        """Index in `resource.entries` of the entry that covers `host`, or None."""
        index = self._named.get(host)
        if index is not None:
            return index
        for wide in (self.everyone, self.rest):
            if wide is not None and host not in self._gone[wide]:
                return wide
        return None

    def entry_for(self, host: str) -> Entry | None:
        """The entry that covers `host`, or None."""
        index = self.index_for(host)
        return None if index is None else self._entries[index]


def entry_for(resource: Resource, host: str) -> Entry | None:
    """The entry of `resource` that covers `host`; `Cover` is cheaper for many hosts."""
    return Cover(resource).entry_for(host)
