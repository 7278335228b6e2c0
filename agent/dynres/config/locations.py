"""Folds the terms of a `location:` into the hosts it covers, whatever the order of its terms."""

from collections.abc import Sequence
from typing import Final, Literal

from dynres.config.consistency import check_host_values, check_overlaps
from dynres.config.context import Context, Folded, describe_unknown
from dynres.config.faults import Fault
from dynres.config.hosts import sort_hosts
from dynres.config.model import Location, Place
from dynres.config.names import KEYWORDS, AmbiguousError
from dynres.config.terms import Term, group_of, listed, shown

__all__ = [
    "Context",
    "Folded",
    "Scope",
    "check_host_values",
    "check_overlaps",
    "fold",
    "fold_reporters",
    "unquoted",
]

Scope = Literal["per-host", "shared", "global"]

_NO_DEFAULT: Final = "one amount per host is a per-host resource: use flags: [consumable]"


def fold(terms: Sequence[Term] | None, context: Context, *, scope: Scope, place: Place) -> Folded:
    """Fold the terms of one entry. `terms` None: there is no `location:`; `place`: of the entry.

    A term that is no text in YAML (`[node[1-4,9]]` is a list in a list) is not a term: report it
    with `unquoted` and fold the others. Never raises.
    """
    if scope == "global":
        return _fold_global(terms, context, place)
    if not terms:
        what = "location is missing" if terms is None else "location names no host"
        everywhere = "all" if scope == "shared" else "default"
        hint = f"location: [{everywhere}] for every worker host"
        fault = Fault(place=place, what=what, expected="a list of hosts", hint=hint)
        return Folded(Location(), [fault], [])
    key = (scope, *(term.text for term in terms))
    known = context.folded.get(key)
    if known is not None:
        return known
    reader = _Reader(context, scope, place)
    for term in terms:
        reader.term(term)
    folded = reader.finish()
    if not folded.faults and not folded.warnings:
        context.folded[key] = folded
    return folded


def _fold_global(terms: Sequence[Term] | None, context: Context, place: Place) -> Folded:
    everywhere = Location(everyone=True)
    if not terms:
        return Folded(everywhere, [], [])
    folded = fold(terms, context, scope="shared", place=place)
    if folded.faults or folded.location == everywhere:
        return folded
    fault = Fault(
        place=terms[0].place,
        what="location of a global resource",
        expected="none: global is shared over all worker hosts",
        got=shown(", ".join(term.text for term in terms)),
        hint="leave location: out, or use flags: [shared]",
    )
    return Folded(everywhere, [fault], folded.warnings)


def fold_reporters(
    terms: Sequence[Term], context: Context
) -> tuple[tuple[str, ...], list[Fault], list[Fault]]:
    """The hosts of `reporter:`, each once, *in the order given*, with faults and warnings.

    Host names, ranges and groups; `worker: false` hosts too. Keywords and exclusions are faults.
    A group that an agent without hosts.yaml cannot resolve gives no host.
    """
    reader = _Reader(context, "shared", terms[0].place if terms else Place("", 1, 1))
    reader.any_host = True
    found: dict[str, None] = {}
    for term in terms:
        if term.text in KEYWORDS or term.text.startswith("~"):
            reader.fault(term, f"{term.text!r} in reporter:", "host names, ranges and @groups")
            continue
        for host in reader.hosts(term, term.text):
            if host in found:
                reader.warn(term, f"reporter {host} is named twice")
            found[host] = None
    return tuple(found), reader.faults, reader.warnings


def unquoted(place: Place, got: str) -> Fault:
    """The fault for a term that YAML reads as a list or a mapping (`got`): quote it."""
    return Fault(
        place=place,
        what="not a host term",
        expected="text",
        got=got,
        hint='quote it, as in "node[1-4,9]"',
    )


class _Reader:
    """Collects what the terms of one entry give and take away."""

    def __init__(self, context: Context, scope: Scope, place: Place) -> None:
        self.context = context
        self.scope = scope
        self.place = place
        self.any_host = False
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.words: dict[str, Term] = {}
        self.given: set[str] = set()
        self.twice: dict[str, Term] = {}
        self.taken: set[str] = set()
        self.spelled: set[str] = set()
        self.unresolved: set[str] = set()
        self.positive = False

    def fault(self, term: Term, what: str, expected: str, hint: str | None = None) -> None:
        got = shown(term.text)
        fault = Fault(place=term.place, what=what, expected=expected, got=got, hint=hint)
        self.faults.append(fault)

    def warn(self, term: Term, what: str, hint: str | None = None) -> None:
        self.warnings.append(Fault(place=term.place, what=what, hint=hint))

    def term(self, term: Term) -> None:
        """Take one term in."""
        text = term.text
        body = text.removeprefix("~")
        if body == text:
            self.positive = True
            if body in KEYWORDS:
                self._word(term, body)
                return
            for given in self.hosts(term, body):
                if given in self.given:
                    self.twice[given] = term
                self.given.add(given)
        elif body in KEYWORDS or body.startswith("~"):
            hint = "take hosts or groups away, or leave the entry out"
            self.fault(term, f"an exclusion of {body!r}", "~ and a host, a range or a @group", hint)
        elif not body:
            null = "YAML reads a bare ~ as null; quote it" if term.plain else None
            self.fault(term, "an exclusion of nothing", "~ and a host, a range or a @group", null)
        else:
            self.taken.update(self.hosts(term, body, away=True))

    def _word(self, term: Term, word: str) -> None:
        if word == "default" and self.scope != "per-host":
            expected = "host names, @groups, all or others"
            self.fault(term, "default on a shared resource", expected, _NO_DEFAULT)
            return
        if word == "others":
            word = "default"
            if self.scope == "per-host":
                what = "others on a per-host resource means default"
                self.warn(term, what, "write default, or flags: [shared] for one pool")
        if word in self.words:
            self.warn(term, f"{term.text} is named twice in one location")
        self.words[word] = term

    def hosts(self, term: Term, body: str, *, away: bool = False) -> tuple[str, ...]:
        """The known hosts of a term without its `~`; faults for the rest of it."""
        if body.startswith("@"):
            return self._group(term, body, away=away)
        names = self.context.expander.hosts(term, body)
        if isinstance(names, Fault):
            self.faults.append(names)
            return ()
        found: list[str] = []
        unknown: list[str] = []
        idle: list[str] = []
        for name in names:
            try:
                host = self.context.names.canonical(name)
            except AmbiguousError as error:
                self.fault(term, f"ambiguous host name {name}", "one host", str(error))
                continue
            if host is None:
                unknown.append(name)
            elif host in self.context.idle and not self.any_host:
                idle.append(host)
            else:
                found.append(host)
        if unknown:
            self.faults.append(describe_unknown(self.context, term, unknown))
        if idle:
            self._idle(term, idle, away=away)
        if len(names) == 1 and found and not away:
            self.spelled.add(found[0])
        return tuple(found)

    def _idle(self, term: Term, hosts: list[str], *, away: bool) -> None:
        if away:
            self.warn(term, f"{listed(hosts)} has worker: false: there is nothing to take away")
            return
        self.faults.append(
            Fault(
                place=term.place,
                what="a host with worker: false in a location",
                expected="worker hosts: it is member of no mapping",
                got=listed(hosts),
                hint="take it out here, or worker: false out of hosts.yaml",
            )
        )

    def _group(self, term: Term, body: str, *, away: bool) -> tuple[str, ...]:
        group = group_of(term, body)
        if isinstance(group, Fault):
            self.faults.append(group)
            return ()
        members = self.context.groups.get(group)
        if members is not None:
            if self.any_host:
                return members
            return tuple(host for host in members if host not in self.context.idle)
        if self.context.groups_known:
            self.faults.append(describe_unknown(self.context, term, [body]))
        else:
            self.unresolved.add(f"~{body}" if away else body)
        return ()

    def finish(self) -> Folded:
        """The location, once every term is in."""
        everyone, rest = "all" in self.words, "default" in self.words
        self._check_repeats(everyone, rest)
        hosts = set[str]() if everyone else self.given - self.taken
        wide = everyone or rest
        keep = wide or self.unresolved
        location = Location(
            hosts=tuple(sort_hosts(hosts)),
            everyone=everyone,
            rest=rest and not everyone,
            minus=tuple(sort_hosts(self.taken)) if keep else (),
            unresolved=tuple(sorted(self.unresolved)),
        )
        if not self.faults:
            self._check_empty(location)
        return Folded(location, self.faults, self.warnings, frozenset(self.spelled & hosts))

    def _check_repeats(self, everyone: bool, rest: bool) -> None:
        if self.twice:
            last = max(self.twice.values(), key=lambda term: term.place)
            names = sort_hosts(self.twice)
            self.warn(last, f"{listed(names)} named twice in one location")
        if everyone and rest:
            self.warn(self.words["default"], "all leaves nothing over", "write all alone")
        if everyone and self.given:
            hint = "write all alone"
            self.warn(self.words["all"], "all names every worker host, also those named", hint)

    def _takes_all(self) -> bool:
        """Whether `all` names declared hosts and the exclusions leave none of them."""
        if "all" not in self.words or not self.taken:
            return False
        workers = {host.name for host in self.context.hosts() if host.worker}
        return bool(workers) and workers <= self.taken

    def _check_empty(self, location: Location) -> None:
        if not self.positive:
            self.faults.append(
                Fault(
                    place=self.place,
                    what="a location of exclusions only",
                    expected="hosts, and ~TERM to take some of them away",
                    hint="add all, default, others or hosts",
                )
            )
        elif self._takes_all() or not (
            location.hosts or location.everyone or location.rest or location.unresolved
        ):
            gone = self.taken if location.everyone else self.given
            got = f"{listed(sort_hosts(gone))}, all taken away" if gone else "no host"
            hint = "leave the entry out, or take away fewer hosts"
            self.faults.append(
                Fault(
                    place=self.place,
                    what="a location that ends up empty",
                    expected="at least one worker host",
                    got=got,
                    hint=hint,
                )
            )
