"""Frames: whole messages come out however the bytes were cut, and nothing else does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres.worker.frames import HEADER, Decoder, FrameError, encode

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.lists(PLAIN, max_size=6), st.integers(1, 50))
def test_messages_come_back_in_order_however_the_bytes_are_cut(messages, size):
    stream = b"".join(encode(message) for message in messages)
    decoder = Decoder()
    got = []
    for start in range(0, len(stream), size):
        got += decoder.feed(stream[start : start + size])
    assert got == messages
    assert decoder.pending == 0


def test_half_a_message_is_kept_until_the_rest_comes():
    frame = encode(("run", b"x" * 100))
    decoder = Decoder()
    assert list(decoder.feed(frame[:50])) == []
    assert decoder.pending == 50
    assert list(decoder.feed(frame[50:])) == [("run", b"x" * 100)]


def test_a_message_over_the_limit_is_refused_before_it_is_gathered():
    decoder = Decoder(limit=100)
    with pytest.raises(FrameError, match="at most 100"):
        list(decoder.feed((101).to_bytes(HEADER, "little")))


def test_a_message_that_is_too_long_is_not_sent():
    with pytest.raises(FrameError, match="at most"):
        encode(b"x" * (17 * 1024 * 1024))


def test_what_is_not_built_in_is_not_sent():
    with pytest.raises(FrameError, match="cannot be sent"):
        encode(object())


@given(PLAIN, st.integers(1, 30))
def test_a_body_that_is_cut_short_raises_frame_error_and_nothing_else(message, missing):
    body = encode(message)[HEADER:][:-missing]
    with pytest.raises(FrameError):
        list(Decoder().feed(len(body).to_bytes(HEADER, "little") + body))
