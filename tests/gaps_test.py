"""The rule of statistics of the pages (experiments/gaps.py), compared with scipy."""

import math
import pathlib
import random
import sys

import pytest
from scipy import stats

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiments"))
import gaps  # noqa: E402


@pytest.mark.parametrize("freedom", [1, 1.3, 2, 2.7, 4, 9, 30, 250])
def test_tails_and_quantiles_are_those_of_scipy(freedom):
    for t in (0.0, 1e-9, 0.01, 0.3, 1.0, 2.5, 4.303, 12.7, 60.0, 450.0):
        assert gaps.two_sided(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-9, abs=1e-300)
        assert gaps.two_sided(-t, freedom) == gaps.two_sided(t, freedom)
    for probability in (0.6, 0.9, 0.95, 0.975, 0.995):
        assert gaps.quantile(probability, freedom) == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9)


def drawn(generator, count, mean=0.0, spread=1.0):
    return [generator.gauss(mean, spread) for _ in range(count)]


def test_pairs_are_those_of_scipy():
    generator = random.Random(3)
    for count in (2, 3, 5, 12):
        first, second = drawn(generator, count, 0.5), drawn(generator, count)
        found, expected = gaps.gap(dict(enumerate(first, 1)), dict(enumerate(second, 1))), stats.ttest_rel(first, second)
        assert (found.count, found.freedom, found.kind) == (count, count - 1, "paired")
        assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
        assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)


def test_rows_without_common_noise_are_compared_by_welch():
    generator = random.Random(4)
    for counts in ((2, 2), (3, 5), (7, 4)):
        first, second = drawn(generator, counts[0], 1, 2), drawn(generator, counts[1])
        expected = stats.ttest_ind(first, second, equal_var=False)
        for found in (gaps.welch(first, second), gaps.gap(dict(enumerate(first, 1)), dict(enumerate(second, 1)), pair=False),
                      gaps.gap(dict(enumerate(first, 1)), dict(enumerate(second, 100)))):
            assert found.kind == "unpaired" and found.count == min(counts)
            assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
            assert found.freedom == pytest.approx(expected.df, rel=1e-9)
            assert found.interval == pytest.approx(tuple(expected.confidence_interval(0.95)), rel=1e-9)


def test_a_row_that_no_seed_changes_is_a_constant():
    values = [0.79, 0.81, 0.78]
    found = gaps.gap(dict(enumerate(values, 1)), {0: 0.86})
    assert found.kind == "constant" and found.count == 3
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0.86).pvalue, rel=1e-9)
    turned = gaps.gap({0: 0.86}, dict(enumerate(values, 1)))
    assert turned.mean == -found.mean and turned.p == pytest.approx(found.p, rel=1e-12)


def test_the_error_of_documents_is_that_of_two_samples():
    """Without noise of seeds it is the test of two shares; with it both errors add up."""
    equal = gaps.gap({1: 0.8, 2: 0.8, 3: 0.8}, {0: 0.7}, documents=400)
    error = math.sqrt((0.8 * 0.2 + 0.7 * 0.3) / 400)
    assert equal.error == pytest.approx(error) and equal.freedom == pytest.approx(399)
    assert equal.p == pytest.approx(2 * stats.t.sf(0.1 / error, 399), rel=1e-6)
    values = {1: 0.79, 2: 0.81, 3: 0.8}
    found, seeds = gaps.gap(values, {0: 0.7}, documents=400), gaps.gap(values, {0: 0.7})
    assert found.error**2 == pytest.approx(seeds.error**2 + error**2) and seeds.freedom < found.freedom < 401
    percent = gaps.gap({seed: 100 * value for seed, value in values.items()}, {0: 70.0}, documents=400, whole=100)
    assert percent.p == pytest.approx(found.p, rel=1e-9) and percent.error == pytest.approx(100 * found.error)
    assert gaps.gap({1: 0.8}, {0: 0.7}, documents=400).p is None
    # Rows that share no noise may differ by their documents too; pairs are compared by their seeds alone.
    apart = gaps.gap(values, {1: 0.7, 2: 0.72, 3: 0.69}, pair=False, documents=400)
    assert apart.error > gaps.gap(values, {1: 0.7, 2: 0.72, 3: 0.69}, pair=False).error
    assert gaps.gap(values, {1: 0.7, 2: 0.72, 3: 0.69}, documents=400).p == gaps.gap(values, {1: 0.7, 2: 0.72, 3: 0.69}).p


def test_holm():
    """Worked by hand, and never below p, never out of order."""
    assert gaps.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert gaps.holm([0.5, None, 0.9]) == [1.0, None, 1.0]
    assert gaps.holm([]) == []
    generator = random.Random(5)
    for _ in range(50):
        values = [generator.random() ** 3 for _ in range(generator.randrange(1, 9))]
        found = gaps.holm(values)
        order = sorted(range(len(values)), key=values.__getitem__)
        assert all(p <= q <= 1 for p, q in zip(values, found))
        assert all(found[a] <= found[b] for a, b in zip(order, order[1:]))
        # By closed testing: Holm rejects the smallest as Bonferroni does.
        assert found[order[0]] == pytest.approx(min(1.0, len(values) * values[order[0]]))


def line(values, other, **more):
    return gaps.Line("a − b", "> 0", gaps.gap(dict(enumerate(values, 1)), dict(enumerate(other, 1))), 3, **more)


def test_verdicts():
    zero = [0.0] * 5
    rising = line([1.0, 1.1, 0.9, 1.05, 0.95], zero)
    falling = line([-1.0, -1.1, -0.9, -1.05, -0.95], zero)
    few = line([1.0, 1.01, 1.02], zero[:3])
    noise = line([1.0, -1.0, 0.4, -0.6, 0.1], zero)
    single = line([1.0], zero[:1])
    noted = line([1.0, 1.1, 0.9, 1.05, 0.95], zero, note="one beginning each")
    nothing = gaps.Line("a − b", "> 0", gaps.gap({}, {1: 1.0}), 3)
    lines = gaps.corrected([rising, falling, few, noise, single, noted, nothing])
    assert [one.verdict for one in lines] == ["shown", "against", "shown, by 3 seeds", "not shown", "not shown: one run",
                                              "not shown: one beginning each", "not shown"]
    for one in lines:
        assert len(one.cells()) == len(gaps.HEADER)
    assert "nan" not in str([one.cells() for one in lines])


def test_two_standard_errors_of_three_seeds_are_not_enough():
    """The rule that the pages had before: p is 0.18."""
    found = gaps.Gap(2.0, 3, 1.0, 2)
    assert found.p == pytest.approx(0.1835, abs=1e-4)


def test_equal_differences_have_no_error():
    assert gaps.paired([0.5, 0.5, 0.5]).p == 0 and gaps.paired([0.0, 0.0]).p == 1
    assert gaps.welch([1.0, 1.0], [1.0, 1.0]).p == 1
    assert math.isfinite(gaps.paired([0.5, 0.5]).interval[0])
