"""Reads the text of a requirement as a tree of conditions, by recursive descent."""

from collections.abc import Callable
from typing import Final, cast

from dynres.controller.condition import (
    COMPARISONS,
    All,
    Any,
    Compare,
    Comparison,
    Condition,
    Defined,
    Enough,
    Name,
    Not,
    Number,
    Operand,
    RequirementError,
    Text,
    Truth,
    written,
)
from dynres.controller.tokens import Token, tokens

DEEPEST: Final = 50
"""Parentheses and `!` within each other."""

_WORDS: Final = {"and": "&&", "or": "||", "not": "!"}
_TRUTHS: Final = {"true": True, "false": False}


def parse(text: str) -> Condition:
    """The tree of a requirement. Raises RequirementError with the column of what is wrong.

    Nothing is known of resources here: `true` and `false` are names where a resource is so called,
    which is decided later.
    """
    return _Parser(list(tokens(text))).whole()


class _Parser:
    def __init__(self, given: list[Token]) -> None:
        self._tokens = given
        self._at = 0
        self._depth = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _take(self, *signs: str) -> Token | None:
        """The next token, when it is one of these signs."""
        token = self._token
        if token.kind == "sign" and token.text in signs:
            self._at += 1
            return token
        return None

    def _unexpected(self, expected: str) -> RequirementError:
        token = self._token
        got = f"{token.text[:40]!r}" if token.kind != "end" else "the end"
        hint = _WORDS.get(token.text.lower()) if token.kind == "name" else None
        return RequirementError(
            token.column, f"expected {expected}, got {got}", f"write {hint}" if hint else None
        )

    def whole(self) -> Condition:
        if self._ended():
            raise RequirementError(1, "the requirement is empty", "write for example mem >= 2 GB")
        found = self._condition(self._either())
        if not self._ended():
            raise self._unexpected("&&, || or the end")
        return found

    def _ended(self) -> bool:
        return self._token.kind == "end"

    def _either(self) -> Condition | Operand:
        return self._chain("||", self._both, Any)

    def _both(self) -> Condition | Operand:
        return self._chain("&&", self._unary, All)

    def _chain(
        self,
        sign: str,
        part: Callable[[], Condition | Operand],
        kind: Callable[[tuple[Condition, ...]], Condition],
    ) -> Condition | Operand:
        first = part()
        if not (self._token.kind == "sign" and self._token.text == sign):
            return first
        parts = [self._condition(first)]
        while self._take(sign):
            parts.append(self._condition(part()))
        return kind(tuple(parts))

    def _unary(self) -> Condition | Operand:
        denied = self._take("!")
        if denied is None:
            return self._comparison()
        self._deeper(denied)
        inner = self._condition(self._unary_or_primary())
        self._depth -= 1
        if self._token.kind == "sign" and self._token.text in (*COMPARISONS, ":"):
            what = f"what does ! deny here, {written(inner)} or the whole comparison?"
            raise RequirementError(denied.column, what, f"write !({written(inner)} …)")
        return Not(inner, column=denied.column)

    def _unary_or_primary(self) -> Condition | Operand:
        sign = self._token.kind == "sign" and self._token.text == "!"
        return self._unary() if sign else self._primary()

    def _comparison(self) -> Condition | Operand:
        left = self._primary()
        if isinstance(left, Name) and (colon := self._take(":")):
            return self._enough(left, colon)
        sign = self._take(*COMPARISONS)
        if sign is None:
            return left
        right = self._operand(self._primary())
        if self._token.kind == "sign" and self._token.text in COMPARISONS:
            what = "a comparison has two sides"
            raise RequirementError(self._token.column, what, "join two of them with &&")
        operator = cast(Comparison, sign.text)
        return Compare(self._operand(left), operator, right, column=left.column)

    def _enough(self, name: Name, colon: Token) -> Condition:
        amount = self._primary()
        if not isinstance(amount, Number):
            what = f"expected a number after {name.name}:"
            raise RequirementError(colon.column + 1, what, "write == to compare with a value")
        return Enough(name, amount, column=name.column)

    def _primary(self) -> Condition | Operand:
        token = self._token
        if (opened := self._take("(")) is not None:
            self._deeper(opened)
            inner = self._either()
            if self._take(")") is None:
                raise self._unexpected(f") for the ( in column {opened.column}")
            self._depth -= 1
            return inner
        if token.kind in {"sign", "end"}:
            raise self._unexpected("a resource, a number, a string, ! or (")
        self._at += 1
        if token.kind == "number":
            return Number(token.number, token.unit, column=token.column)
        if token.kind == "text":
            return Text(token.text, column=token.column)
        if token.text == "defined" and self._take("("):
            return self._defined(token)
        if token.text in _TRUTHS:
            return Truth(_TRUTHS[token.text], column=token.column)
        return Name(token.text, column=token.column)

    def _defined(self, token: Token) -> Condition:
        name = self._token
        if name.kind != "name":
            raise self._unexpected("the name of a resource")
        self._at += 1
        if self._take(")") is None:
            raise self._unexpected(")")
        return Defined(Name(name.text, column=name.column), column=token.column)

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            what = f"more than {DEEPEST} parentheses and ! within each other"
            raise RequirementError(token.column, what)

    def _condition(self, part: Condition | Operand) -> Condition:
        if isinstance(part, Number | Text):
            what = f"{written(part)[:40]} alone is no condition"
            raise RequirementError(part.column, what, "compare it with a resource")
        return part

    def _operand(self, part: Condition | Operand) -> Operand:
        if isinstance(part, Name | Number | Text | Truth):
            return part
        what = f"{written(part)[:40]} is a condition and cannot be compared"
        raise RequirementError(part.column, what)
