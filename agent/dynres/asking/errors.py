"""What a request of a client raises, and how an answer is taken."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from dynres.wire.codec import WireError, encode
from dynres.wire.leasing import Waiting
from dynres.wire.requests import AnyAnswer, Call, Failure, read_result

T = TypeVar("T")
FaultShape = dict[str, str | None]


class ClientError(Exception):
    """A request that gave no result: `code` for scripts, `faults` of configuration files."""

    def __init__(self, code: str, message: str, faults: Sequence[FaultShape] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.faults = tuple(faults)


class UnreachableError(ClientError):
    """No controller has answered in time."""


class RequestRefusedError(ClientError):
    """The controller has refused the request, and says why."""


def packed(call: Call) -> bytes:
    """The bytes of a request. Raises RequestRefusedError for what cannot be sent as it is."""
    try:
        return encode(call)
    except UnicodeEncodeError as error:
        raise RequestRefusedError("usage", f"{error.object[:64]!r} is no UTF-8 text") from error
    except OverflowError as error:
        raise RequestRefusedError("usage", "a number is too large for a request") from error


def expect(kind: type[T], call: Call, body: bytes) -> T:
    """The answer of that kind. Raises RequestRefusedError for a failure or a strange answer."""
    try:
        result = read_result(body)
    except WireError as error:
        message = f"not an answer that this client knows, of another version? {error}"
        raise RequestRefusedError("protocol", message) from error
    answer: AnyAnswer = result.answer
    if isinstance(answer, Failure):
        raise RequestRefusedError(answer.code, answer.message, answer.faults)
    if result.id != call.id or not isinstance(answer, kind):
        raise RequestRefusedError("protocol", "the answer is to another request")
    return answer


def waiting(body: bytes) -> Waiting | None:
    """What an answer says of a request that still waits; None: it is the answer itself."""
    try:
        answer = read_result(body).answer
    except WireError:
        return None
    return answer if isinstance(answer, Waiting) else None


def names(given: Iterable[str]) -> tuple[str, ...]:
    """A list of names, which a text alone is not. Raises TypeError."""
    if isinstance(given, str):
        raise TypeError(f"expected a list of names, got the text {given!r}")
    return tuple(text("a name", name) for name in given)


def text(what: str, given: T) -> T:
    """What must be a text, or None where nothing need be given. Raises TypeError."""
    if given is None or isinstance(given, str):
        return given
    raise TypeError(f"{what}: expected a text, got {given!r}; {str(given)!r}?")


def seconds(what: str, given: T) -> T:
    """What must be seconds, or None. Raises TypeError."""
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    raise TypeError(f"{what}: expected a number of seconds, got {given!r}")
