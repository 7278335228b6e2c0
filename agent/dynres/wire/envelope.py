"""What every request and every answer is: a struct that says by its tag which one."""

import msgspec


class Request(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of all requests."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, tag_field="t"):
    """Base of all answers."""
