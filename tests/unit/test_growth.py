import pytest

from ckpt_conformance.instruments.growth import Trend, judge_growth


@pytest.mark.parametrize(
    ("levels", "trend"),
    [
        ([5, 9, 9, 9, 9, 9], Trend.FLAT),
        ([5, 9, 11, 13, 15, 17], Trend.GROWING),
        ([5, 9, 10, 13, 15, 19], Trend.GROWING),
        ([5, 9, 11, 13, 13, 13], Trend.SETTLED),
        ([5, 9, 12, 12, 12, 12], Trend.SETTLED),
        ([5, 9, 9, 9, 9, 12], Trend.TOO_SHORT),
        ([5, 9, 8, 7, 9, 8, 7, 9, 8, 7], Trend.FLAT),
        ([0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4], Trend.PERIODIC),
        ([0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 7], Trend.FLAT),
    ],
)
def test_each_series_comes_to_its_trend(levels, trend):
    assert judge_growth(levels, warmup=2).trend is trend


def test_a_constant_amount_per_step_is_said_to_be_constant():
    assert judge_growth([0, 0, 8, 16, 24], warmup=2).constant
    assert not judge_growth([0, 0, 8, 24, 25], warmup=2).constant


def test_the_rate_is_the_mean_over_the_steps_that_count():
    assert judge_growth([100, 200, 203, 209], warmup=2).per_step == 4.5


def test_the_period_of_growth_at_every_third_step_is_three():
    growth = judge_growth([0, 0, 4, 4, 4, 8, 8, 8, 12, 12, 12], warmup=2)
    assert (growth.leaks, growth.period) == (True, 3)


def test_growth_seen_twice_at_every_third_step_is_too_short_to_tell():
    assert judge_growth([0, 0, 4, 4, 4, 8, 8], warmup=2).trend is Trend.TOO_SHORT


@pytest.mark.parametrize(("levels", "warmup"), [([1, 2], 2), ([1, 2], 0)])
def test_without_a_step_of_either_sort_there_is_nothing_to_judge(levels, warmup):
    with pytest.raises(ValueError, match="at least one"):
        judge_growth(levels, warmup)
