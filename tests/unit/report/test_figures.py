"""Every figure draws the numbers it is given, on the axes it is given, with names and units."""

import re

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from indubio.chain import Contributions
from indubio.chain.explain import Parts
from indubio.errors import ConfigError
from indubio.evaluation import accuracy_rejection_curve
from indubio.judging import ON_DEMAND, UNCERTAINTIES
from indubio.report import (
    COLOURS,
    Drawing,
    plot_confusion,
    plot_contributions,
    plot_distribution,
    plot_heat,
    plot_image,
    plot_rejection_curves,
    plot_right_and_wrong,
    plot_score_over_time,
    plot_signal,
    report_style,
)
from indubio.report.pictures import MOST_PIXELS, reduced
from indubio.report.signals import peaks
from indubio.report.style import QUANTITIES
from indubio.report.svg import inline_svg

RNG = np.random.default_rng(0)


@pytest.fixture
def axes():
    return Figure().subplots()


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def parts(value, spread=None) -> Parts:
    return Parts(value=value, spread=np.zeros_like(value) if spread is None else spread)


def made_of(names, features: Parts) -> Contributions:
    places = np.arange(len(features.value))
    return Contributions(
        places=places, names=names, value_names=names, typical=0.1, values=features, features=features, steps=None
    )


# ----- distributions


def test_every_uncertainty_has_a_name_and_a_unit():
    assert set(QUANTITIES) == {"probability", "novelty", *UNCERTAINTIES, *ON_DEMAND}
    assert all(re.fullmatch(r".+ \[.+\]", quantity.label) for quantity in QUANTITIES.values())


@pytest.mark.parametrize("of", QUANTITIES)
def test_a_histogram_counts_every_example_once(axes, of):
    largest = QUANTITIES[of].largest
    values = np.append(RNG.random(200) * (largest or 50), [0, largest or 1e-9])
    plot_distribution(axes, values, of=of)
    assert axes.patches[0].get_data().values.sum() == 202
    assert axes.get_xlabel() == QUANTITIES[of].label
    assert axes.get_ylabel() == "examples"


def test_labelled_examples_are_drawn_apart(axes):
    labels = np.arange(50) < 20
    plot_distribution(axes, RNG.random(50), of="probability", labels=labels)
    assert [axes.patches[place].get_data().values.sum() for place in (0, 2)] == [30, 20]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["normal (30)", "anomalies (20)"]


def test_counts_are_logarithmic_only_where_one_bar_dwarfs_the_others(axes):
    plot_distribution(axes, np.append(np.zeros(1000), np.linspace(0, 1, 41)), of="probability")
    assert axes.get_yscale() == "log"
    even = Figure().subplots()
    plot_distribution(even, np.linspace(0, 1, 1000), of="probability")
    assert even.get_yscale() == "linear"


def test_a_threshold_is_drawn_only_where_it_lies_in_range(axes):
    plot_distribution(axes, np.zeros(3), of="total", threshold=0.2, threshold_name="referred above")
    assert axes.lines[0].get_xdata()[0] == 0.2
    never = Figure().subplots()
    plot_distribution(never, np.zeros(3), of="total", threshold=float("inf"))
    assert not never.lines


@pytest.mark.parametrize("values", [np.zeros(5), np.full(5, 3.0), np.array([0, 1e-30, 1e30])])
def test_a_quantity_without_an_end_is_drawn_whatever_its_values(axes, values):
    plot_distribution(axes, values, of="var_nll")
    axes.figure.draw_without_rendering()
    assert axes.patches[0].get_data().values.sum() == len(values)


def test_infinite_values_are_left_out_and_counted(axes):
    plot_distribution(axes, np.array([1.0, 2.0, np.inf]), of="var_nll")
    assert axes.patches[0].get_data().values.sum() == 2
    assert "1 infinite left out" in axes.get_xlabel()


def test_an_unknown_quantity_is_refused(axes):
    with pytest.raises(ConfigError, match="`of` must be one of probability"):
        plot_distribution(axes, np.zeros(3), of="doubt")


def test_boxes_show_the_medians_of_right_and_wrong(axes):
    values, wrong = RNG.random(100), np.arange(100) >= 60
    plot_right_and_wrong(axes, values, wrong, of="exceed")
    medians = [line.get_ydata()[0] for line in axes.lines if line.get_linewidth() == 2]
    np.testing.assert_allclose(medians, [np.median(values[:60]), np.median(values[60:])])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["right (60)", "wrong (40)"]


def test_boxes_are_drawn_without_a_single_error(axes):
    plot_right_and_wrong(axes, RNG.random(50), np.zeros(50, dtype=bool), of="total")
    assert axes.get_xticklabels()[1].get_text() == "wrong (0)"


# ----- confusion


def test_a_confusion_matrix_has_the_four_counts(axes):
    labels, predictions = np.array([0, 0, 0, 1, 1], dtype=bool), np.array([0, 0, 1, 1, 0], dtype=bool)
    plot_confusion(axes, labels, predictions)
    assert texts(axes) == ["2", "66.7%", "1", "33.3%", "1", "50.0%", "1", "50.0%"]


def test_after_referral_the_referred_have_a_column_of_their_own(axes):
    labels, predictions = np.array([0, 0, 0, 1, 1], dtype=bool), np.array([0, 0, 1, 1, 0], dtype=bool)
    plot_confusion(axes, labels, predictions, referred=np.array([0, 0, 1, 0, 1], dtype=bool))
    assert texts(axes)[::2] == ["2", "0", "1", "0", "1", "1"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["normal", "anomaly", "referred"]


def test_a_class_that_is_not_there_has_no_percentage(axes):
    plot_confusion(axes, np.zeros(3, dtype=bool), np.zeros(3, dtype=bool))
    assert texts(axes)[4:] == ["0", "-", "0", "-"]


# ----- contributions and signals


def test_bars_are_the_largest_contributions_with_their_spread(axes):
    value = np.array([[0.1, 0.6, 0.3]])
    found = made_of(("a", "b", "c"), parts(value, value / 10))
    plot_contributions(axes, found, 0, most=2)
    assert [bar.get_width() for bar in axes.patches] == [0.6, 0.3]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "c"]
    assert texts(axes) == ["60%", "30%"]
    ends = axes.collections[0].get_segments()
    np.testing.assert_allclose([segment[:, 0] for segment in ends], [[0.54, 0.66], [0.27, 0.33]])
    assert axes.get_xlabel() == "beyond the typical score [NLL]"


def test_names_are_never_read_as_formulas_and_long_ones_are_cut(axes):
    names = (r"$\frac{", "$E_GH_FAULT_2 (I26S21)$", "x" * 300)
    found = made_of(names, parts(np.ones((1, 3))))
    plot_contributions(axes, found, 0)
    axes.figure.draw_without_rendering()
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert shown[0] == r"$\frac{"
    assert len(shown[2]) == 28


def test_a_signal_is_drawn_with_the_mean_and_spread_of_the_draws(axes):
    signal, draws = RNG.random(20), RNG.random((5, 20))
    signal[3] = np.nan
    plot_signal(axes, signal, draws, sensor="force [kN]", rate=10)
    expected, measured = axes.lines
    np.testing.assert_allclose(expected.get_ydata(), draws.mean(axis=0))
    np.testing.assert_array_equal(measured.get_ydata(), signal)
    np.testing.assert_allclose(measured.get_xdata(), np.arange(20) / 10)
    edges = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert edges.max() == pytest.approx((draws.mean(axis=0) + draws.std(axis=0)).max())
    assert (axes.get_title(loc="left"), axes.get_xlabel()) == ("force [kN]", "time [s]")


def test_long_names_of_sensors_can_be_told_apart_by_their_ends(axes):
    names = tuple(f"Temperatur Lager vorn, Sensor Nr. {i}" for i in (1, 2)) + tuple(
        f"Accelerometer{i}RMS: mean of windows" for i in (1, 2)
    )
    plot_contributions(axes, made_of(names, parts(np.ones((1, 4)))), 0)
    shown = [label.get_text() for label in axes.get_yticklabels()]
    assert len(set(shown)) == 4
    assert shown[0].endswith("Sensor Nr. 1"[-10:])
    assert max(map(len, shown)) <= 30


def test_names_in_letters_that_the_font_lacks_are_drawn_without_a_word(recwarn):
    found = made_of(("温度", "压力 [bar]"), parts(np.ones((1, 2))))
    assert "温度" in Drawing().one("bars", lambda axes: plot_contributions(axes, found, 0))
    assert not recwarn.list


def test_names_of_signals_above_each_other_do_not_overlap():
    names = tuple(f"Temperatur Lager vorn, Sensor Nr. {i} [°C]" for i in range(3))
    made = Drawing().signals(
        "signals",
        signal=RNG.random((20, 3)),
        reconstruction=None,
        found=made_of(names, parts(np.ones((1, 3)))),
        example=0,
        sensors=[0, 1, 2],
        rate=None,
    )
    titles = re.findall(r"<text[^>]*>(Temperatur[^<]*)</text>", made)
    assert titles == list(names)  # whole, and not turned
    assert not re.search(r"rotate\(-90[^>]*>Temperatur", made)


def test_the_score_over_time_counts_steps_where_no_rate_is_known(axes):
    score = RNG.random(15)
    plot_score_over_time(axes, score, 2 * score)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), score)
    assert axes.collections[0].get_paths()[0].vertices[:, 1].min() >= 0
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("score [NLL]", "time [steps]")


def test_no_peak_is_lost_when_a_long_signal_is_thinned():
    signal = 0.01 * RNG.random(5000)
    signal[1234], signal[4321], signal[50] = 9, -9, np.nan
    shown = peaks(signal, 300)
    assert len(shown) <= 302
    assert {0, 1234, 4321, 4999} <= set(shown.tolist())
    assert (np.diff(shown) > 0).all()
    np.testing.assert_array_equal(peaks(signal, None), np.arange(5000))


def test_a_thinned_curve_keeps_its_ends_and_its_summary(axes):
    labels = RNG.random(3000) < 0.2
    curve = accuracy_rejection_curve(labels, labels, RNG.random(3000))
    plot_rejection_curves(axes, {"total": curve}, most=100)
    (line,) = axes.lines
    assert len(line.get_xdata()) == 100
    assert line.get_xdata()[[0, -1]].tolist() == [0, 100 * curve.rejection_rate[-1]]
    assert f"W {100 * curve.weighted_average:.1f}" in line.get_label()


# ----- style and SVG


def test_colours_are_those_of_okabe_and_ito():
    assert set(COLOURS) == {
        *("#000000", "#e69f00", "#56b4e9", "#009e73"),
        *("#f0e442", "#0072b2", "#d55e00", "#cc79a7"),
    }
    assert all(to_hex(colour) == colour for colour in COLOURS)


def test_the_style_leaves_matplotlibs_settings_as_they_were():
    before = dict(mpl.rcParams)
    with report_style():
        assert mpl.rcParams["svg.fonttype"] == "none"
    assert dict(mpl.rcParams) == before


def drawn_svg(key="f1", label="a figure", name="name") -> str:
    with report_style():
        figure = Figure(figsize=(3, 2))
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], "o-", color=COLOURS[0])
        axes.set_title(name, parse_math=False)
        return str(inline_svg(figure, key=key, label=label))


def test_an_inline_figure_is_the_same_every_time_and_follows_the_paper():
    svg = drawn_svg()
    assert svg == drawn_svg()
    assert svg.startswith('<svg viewBox="0 0 216 144" role="img" aria-label="a figure">')
    assert "currentColor" in svg
    assert "var(--figure-blue)" in svg
    assert not re.search("http|<metadata|<style|<!--|#000000", svg)


def test_identifiers_of_two_figures_do_not_meet():
    one, other = (set(re.findall(r'\bid="([^"]+)"', drawn_svg(key=key))) for key in ("f1", "f2"))
    assert one
    assert not one & other
    references = set(re.findall(r'(?:url\(#|href="#)([\w-]+)', drawn_svg(key="f1")))
    assert references == one


def test_letters_that_matplotlib_lacks_do_not_warn_and_markup_is_escaped():
    svg = drawn_svg(name="温度 <script>alert(1)</script> -->", label='"><b>')
    assert "温度" in svg
    assert "<script" not in svg
    assert "<b>" not in svg


def test_an_image_is_drawn_from_its_darkest_to_its_brightest_value(axes):
    image = np.array([[10.0, 20.0], [30.0, np.nan]])[..., None]
    plot_image(axes, image, like=image)
    np.testing.assert_allclose(axes.images[0].get_array(), [[0, 0.5], [1, 0]])


def test_what_is_expected_is_drawn_on_the_scale_of_the_image_and_cut_off_beyond_it(axes):
    plot_image(axes, np.full((2, 2, 3), 300.0), like=np.arange(12.0).reshape(2, 2, 3))
    assert (axes.images[0].get_array() == 1).all()


def test_a_constant_image_and_an_even_heat_map_are_drawn(axes):
    plot_image(axes, np.full((3, 4, 1), 7.0), like=np.full((3, 4, 1), 7.0))
    plot_heat(axes, np.zeros((3, 4)))
    assert all(np.isfinite(image.get_array()).all() for image in axes.images)


def test_a_heat_map_has_zero_in_the_middle_of_its_colours(axes):
    plot_heat(axes, np.array([[3.0, -1.0]]))
    assert axes.images[0].get_clim() == (-3, 3)


@pytest.mark.parametrize("shape", [(8, 8), (500, 300), (1, 1000), (MOST_PIXELS, MOST_PIXELS + 1)])
def test_a_large_image_is_drawn_by_means_of_squares(shape):
    image = RNG.normal(size=(*shape, 3))
    shown = reduced(image)
    square = max(1, min(-(-max(shape) // MOST_PIXELS), *shape))
    assert shown.shape[:2] == (shape[0] // square, shape[1] // square)
    np.testing.assert_allclose(shown[0, 0], image[:square, :square].mean(axis=(0, 1)))
