"""Several records of one output as one: of each resource the newest record counts."""

from collections.abc import Iterable

from dynres.worker.pairs import Asked, Pair


def newest(records: Iterable[Iterable[Pair]], asked: Asked) -> list[Pair]:
    """The pairs of all records, oldest first, of which later ones replace earlier ones.

    A name that one record gives twice is refused; what has no name is kept as it came.
    """
    kept: dict[str, Pair] = {}
    nameless: list[Pair] = []
    for record in records:
        seen: set[str] = set()
        for pair in record:
            target = asked.target(pair.name)
            if not pair.name:
                nameless.append(pair)
            elif target in seen:
                kept[target] = Pair(name=pair.name, text=pair.text, fault="given twice")
            else:
                kept[target] = pair
            seen.add(target)
    return [*kept.values(), *nameless]
