"""Averages and growth: the arithmetic of the load indices."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynres_probes.averages import Average, Growth


def test_an_average_starts_at_its_first_sample():
    assert Average(60).add(3.0, 0.0) == 3.0


def test_an_average_moves_by_the_exponential_of_measured_time_over_its_period():
    average = Average(15)
    average.add(4.0, 0.0)
    keep = math.exp(-5 / 15)
    assert average.add(1.0, 5.0) == pytest.approx(4.0 * keep + 1.0 * (1 - keep))
    keep = math.exp(-2.5 / 15)
    assert average.add(0.0, 2.5) == pytest.approx(
        (4 * math.exp(-1 / 3) + 1 - math.exp(-1 / 3)) * keep
    )


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e5)), min_size=1))
def test_an_average_stays_between_the_smallest_and_the_largest_sample(samples):
    average = Average(60)
    for sample, elapsed in samples:
        value = average.add(sample, elapsed)
    low, high = min(s for s, _ in samples), max(s for s, _ in samples)
    assert low - 1e-6 <= value <= high + 1e-6


@given(st.floats(0, 1e6), st.floats(0.1, 100), st.floats(0.1, 100))
def test_how_often_a_constant_load_is_sampled_does_not_change_its_average(load, first, second):
    often, once = Average(60), Average(60)
    for average in (often, once):
        average.add(0.0, 0.0)
    often.add(load, first)
    often.add(load, second)
    once.add(load, first + second)
    assert often.value == pytest.approx(once.value)


def test_the_first_look_at_counters_is_no_sample():
    assert Growth().since_last((5,), 1.0) is None


def test_growth_is_what_was_gained_and_the_seconds_it_took():
    growth = Growth()
    growth.since_last((5, 100), 1.0)
    assert growth.since_last((7, 100), 3.5) == ([2, 0], 2.5)


def test_a_counter_that_goes_backwards_skips_that_sample_and_counts_on_from_there():
    growth = Growth()
    growth.since_last((100, 100), 1.0)
    assert growth.since_last((150, 99), 2.0) is None
    assert growth.since_last((151, 101), 3.0) == ([1, 2], 1.0)


def test_two_looks_at_the_same_instant_are_no_sample():
    growth = Growth()
    growth.since_last((5,), 1.0)
    assert growth.since_last((6,), 1.0) is None
