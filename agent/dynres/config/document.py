"""Reads the bytes of one YAML file into a tree of text and places, within fixed bounds.

The parser's events are used rather than its node graph: nothing recurses, an alias is shared
instead of copied, and the bounds hold before memory is taken.
"""

import re
from typing import Final

import yaml

from dynres.config.faults import Fault
from dynres.config.model import Place
from dynres.config.scalars import Document, Items, Map, Node, Scalar
from dynres.config.syntax import Stop, explain

FILE_LIMIT: Final = 8 * 1024 * 1024
DEPTH_LIMIT: Final = 64
NODE_LIMIT: Final = 1_000_000
FAULT_LIMIT: Final = 100

_CONTROL = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_PLAIN_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})
_SHAPE_TAGS: Final = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class _StopError(Exception):
    """This file cannot be read any further."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


def read_document(data: bytes, file: str) -> tuple[Document | None, list[Fault]]:
    """The tree of one file and its faults; no tree where the text is no YAML. Never raises."""
    builder = _Builder(file)
    try:
        root = builder.build(_decode(data, file))
    except _StopError as stop:
        return None, [*builder.faults, stop.fault]
    return Document(file, root), builder.faults


def _decode(data: bytes, file: str) -> str:
    start = Place(file, 1, 1)
    if len(data) > FILE_LIMIT:
        raise _StopError(
            Fault(
                place=start,
                what="file is too large",
                expected=f"at most {FILE_LIMIT // 1024**2} MiB",
                got="more",
                hint="split it into resources.d/",
            )
        )
    if data[:2] in {b"\xff\xfe", b"\xfe\xff"}:
        raise _StopError(Fault(place=start, what="text encoding", expected="UTF-8", got="UTF-16"))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig")
        raise _StopError(
            Fault(
                place=_place(before, file),
                what="text encoding",
                expected="UTF-8",
                got=f"byte 0x{data[error.start]:02x}",
                hint="save the file as UTF-8",
            )
        ) from None
    bad = _CONTROL.search(text)
    if bad:
        raise _StopError(
            Fault(
                place=_place(text[: bad.start()], file),
                what="control character",
                expected="text",
                got=f"U+{ord(bad[0]):04X}",
                hint="delete it",
            )
        )
    return text


def _place(before: str, file: str) -> Place:
    """The place just after `before`."""
    lines = _BREAK.split(before)
    return Place(file, len(lines), len(lines[-1]) + 1)


def _where(error: yaml.YAMLError) -> Stop:
    if not isinstance(error, yaml.MarkedYAMLError):
        return Stop(str(error).partition("\n")[0], 0, 0, "", 0, 0)
    mark = error.problem_mark
    begin = error.context_mark or mark
    return Stop(
        problem=error.problem or "cannot be read",
        line=mark.line if mark else 0,
        column=mark.column if mark else 0,
        context=error.context or "",
        context_line=begin.line if begin else 0,
        context_column=begin.column if begin else 0,
    )


class _Builder:
    """Turns the events of one file into a tree."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.faults: list[Fault] = []
        self.nodes = 0
        self.anchors: dict[str, Node | None] = {}  # None: not closed yet
        self.stack: list[tuple[Map | Items, str | None]] = []
        self.keys: list[Scalar | None] = []  # the key that waits for its value, a level each
        self.root: Node | None = None

    def build(self, text: str) -> Node | None:
        """The root of the only document in `text`. Raises _StopError."""
        try:
            documents = 0
            for event in yaml.parse(text, Loader=yaml.CSafeLoader):
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        raise self._stop(event, "second document in one file", "one document")
                elif isinstance(event, yaml.NodeEvent):
                    self._node(event)
                elif isinstance(event, yaml.CollectionEndEvent):
                    self._close()
        except yaml.YAMLError as error:
            raise _StopError(explain(_where(error), text, self.file)) from None
        return self.root

    def _node(self, event: yaml.NodeEvent) -> None:
        self.nodes += 1
        if self.nodes > NODE_LIMIT:
            raise self._stop(event, "too much in one file", f"at most {NODE_LIMIT} values")
        if isinstance(event, yaml.AliasEvent):
            self._add(self._alias(event))
        elif isinstance(event, yaml.ScalarEvent):
            scalar = self._scalar(event)
            if event.anchor:
                self.anchors[event.anchor] = scalar
            self._add(scalar)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(event)

    def _scalar(self, event: yaml.ScalarEvent) -> Scalar:
        if event.tag is not None and event.tag not in _PLAIN_TAGS:
            self._tag(event, event.tag)
        place = self._at(event)
        return Scalar.at(
            event.value,
            place.file,
            place.line,
            place.column,
            plain=event.style in (None, "") and event.tag is None,
        )

    def _tag(self, event: yaml.NodeEvent, tag: str) -> None:
        shown = tag.replace("tag:yaml.org,2002:", "!!")
        self._fault(
            Fault(
                place=self._at(event),
                what="a tag",
                expected="plain text: a type comes from the declaration",
                got=shown,
                hint=f'quote it if it is text: "{shown}"' if shown[:2] != "!!" else "leave it out",
            )
        )

    def _alias(self, event: yaml.AliasEvent) -> Node:
        if event.anchor not in self.anchors:
            raise self._stop(
                event,
                "unknown alias",
                "an anchor &NAME above",
                f"*{event.anchor}",
                f'quote it if it is text: "*{event.anchor}"',
            )
        target = self.anchors[event.anchor]
        if target is None:
            raise self._stop(event, "alias inside its own anchor", "no cycle", f"*{event.anchor}")
        self._charge(event, target)
        return target

    def _charge(self, event: yaml.AliasEvent, target: Node) -> None:
        """Count what an alias stands for, so that few lines cannot stand for billions."""
        self.nodes += 0 if isinstance(target, Scalar) else target.size
        if self.nodes > NODE_LIMIT:
            raise self._stop(
                event,
                "aliases expand to too much",
                f"at most {NODE_LIMIT} values in all",
                hint="write out what is needed",
            )

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        if len(self.stack) >= DEPTH_LIMIT:
            raise self._stop(event, "nested too deeply", f"at most {DEPTH_LIMIT} levels")
        if event.tag is not None and event.tag not in _SHAPE_TAGS | {"!"}:
            self._tag(event, event.tag)
        made = Map if isinstance(event, yaml.MappingStartEvent) else Items
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append((made(self._at(event)), event.anchor))
        self.keys.append(None)

    def _close(self) -> None:
        node, anchor = self.stack.pop()
        self.keys.pop()
        if isinstance(node, Map):
            self._merge(node)
        if anchor:
            self.anchors[anchor] = node
        self._add(node)

    def _add(self, node: Node) -> None:
        """Put a finished node where it belongs."""
        if not self.stack:
            self.root = node
            return
        into = self.stack[-1][0]
        into.size += 1 if isinstance(node, Scalar) else node.size
        if isinstance(into, Items):
            into.append(node)
            return
        key = self.keys[-1]
        if key is None:
            self.keys[-1] = self._key(node)
        else:
            self.keys[-1] = None
            self._put(into, key, node)

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        kind = "a mapping" if isinstance(node, Map) else "a list"
        fault = Fault(place=node.place, what="a key", expected="text", got=kind, hint="quote it")
        raise _StopError(fault)

    def _put(self, into: Map, key: Scalar, node: Node) -> None:
        first = into.key(key) if key in into else None
        if first is None:
            into[key] = node
            return
        self._fault(
            Fault(
                place=key.place,
                what=f"duplicate key {key.text!r}",
                expected="each key once",
                got=f"a second one; the first is at {first.place}",
                hint="delete one of them",
            )
        )

    def _merge(self, node: Map) -> None:
        """Apply `<<:`; keys of the mapping itself win, then the earlier of the merged ones."""
        key = node.key("<<") if "<<" in node else None
        if key is None or not key.plain:
            return
        merged = node.pop(key)
        for source in merged if isinstance(merged, Items) else [merged]:
            if not isinstance(source, Map):
                self._fault(
                    Fault(
                        place=source.place,
                        what="merge key <<",
                        expected="a mapping or a list of mappings",
                        got="text" if isinstance(source, Scalar) else "a list",
                    )
                )
                continue
            for name, value in source.items():
                node.setdefault(name, value)

    def _fault(self, fault: Fault) -> None:
        self.faults.append(fault)
        if len(self.faults) >= FAULT_LIMIT:
            raise _StopError(
                Fault(place=fault.place, what=f"more than {FAULT_LIMIT} faults", hint="see above")
            )

    def _at(self, event: yaml.Event) -> Place:
        mark = event.start_mark
        return Place(self.file, mark.line + 1, mark.column + 1) if mark else Place(self.file, 1, 1)

    def _stop(
        self,
        event: yaml.Event,
        what: str,
        expected: str,
        got: str | None = None,
        hint: str | None = None,
    ) -> _StopError:
        place = self._at(event)
        return _StopError(Fault(place=place, what=what, expected=expected, got=got, hint=hint))
