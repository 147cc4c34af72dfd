"""The paper's figures from a small store that is written here: what they draw is what follows from the raw scores."""

from itertools import product

import matplotlib as mpl
import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import recall_score, roc_auc_score

from indubio.errors import ConfigError
from indubio.judging import PAPER_CONVERSIONS, UNCERTAINTIES
from indubio_lab.paper import CellStore
from indubio_lab.paper.presets import MODELS
from indubio_lab.paper.reproduction.cells import Cell, CellOutcome
from indubio_lab.paper.reproduction.figures import CAPTIONS, FIGURES, write_figures
from indubio_lab.paper.reproduction.figures.averaging import mean_curve
from indubio_lab.paper.reproduction.figures.conversion_sketch import conversion_figure
from indubio_lab.paper.reproduction.figures.look import DISTRIBUTIONS, MODEL_LOOKS, UNCERTAINTY_NAMES
from indubio_lab.paper.reproduction.figures.preprocessing import made_up, pipeline_figure
from indubio_lab.paper.reproduction.figures.results import Results
from indubio_lab.paper.reproduction.judgements import within

SEEDS = range(3)
RATES = np.linspace(0, 1, 51)
ENSEMBLE = "BAE-Ensemble"
DRAWS = {"Deterministic AE": 1, ENSEMBLE: 4, "BAE-SGHMC": 3}
TASKS = (("odds", "-", "cardio"), ("odds", "-", "vowels"), ("zema", "fits", "cooler"))
SIZES = {"cardio": 60, "vowels": 40, "cooler": 50}
CHOSEN_ON_TEST = "chosen on test labels"


def outcome(cell: Cell, *, generated=False) -> CellOutcome:
    """Scores that overlap, other ones for every cell."""
    random = np.random.default_rng([cell.seed, len(cell.task), len(cell.model)])
    shape = DRAWS[cell.model], SIZES.get(cell.task, 30)
    labels = np.repeat([0, 1], [30, 12])
    return CellOutcome(
        train_nll=random.gamma(4, size=shape),
        test_nll=random.gamma(4, size=(shape[0], 42)) * (1 + labels) + random.random(),
        labels=labels,
        cpu_seconds=1.0,
        generated=generated,
        remarks=(CHOSEN_ON_TEST,) if cell.sensors == "fits" else (),
    )


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    return [
        Cell(collection, "text", sensors, task, model, seed)
        for seed, (collection, sensors, task), model in product(SEEDS, TASKS, DRAWS)
    ]


@pytest.fixture(scope="module")
def store(cells, tmp_path_factory) -> CellStore:
    store = CellStore(tmp_path_factory.mktemp("results"))
    for cell in cells:
        store.write(cell, outcome(cell))
    return store


@pytest.fixture(scope="module")
def fixed(store, cells) -> Results:
    return Results(store=store, cells=tuple(cells), choice="fixed")


@pytest.fixture(scope="module")
def oracle(store, cells) -> Results:
    return Results(store=store, cells=tuple(cells))


def of(cells, **wanted) -> list[Cell]:
    return [cell for cell in cells if all(getattr(cell, name) == value for name, value in wanted.items())]


def panel(figure, title):
    (axes,) = (axes for axes in figure.axes if axes.get_title() == title)
    return axes


def line(axes, label):
    (found,) = (line for line in axes.lines if line.get_label() == label)
    return found


def texts(figure) -> str:
    return " ".join(text.get_text() for text in figure.findobj(mpl.text.Text))


# ----- the same numbers by other means


def fixed_probability(cell: Cell) -> np.ndarray:
    """ECDF with the scaling as the scripts have it, example by example."""
    raw = outcome(cell)
    draws = []
    for train, test in zip(raw.train_nll, raw.test_nll, strict=True):
        level = np.mean([np.mean(train <= score) for score in train])
        draws.append([max(0.0, (np.mean(train <= score) - level) / (1 - level)) for score in test])
    return np.mean(draws, axis=0)


def value_at(rate, labels, unsure, metric) -> float:
    """The metric of what is kept when as many as possible, but no more than this share, are rejected."""
    shares = {threshold: np.mean(unsure > threshold) for threshold in np.unique(unsure)}
    if rate > max(shares.values()) + 1e-9:
        return np.nan
    kept = unsure <= min(threshold for threshold, share in shares.items() if share <= rate + 1e-9)
    return metric(kept) if labels[kept].sum() >= 3 and (1 - labels[kept]).sum() >= 1 else np.nan


def gss(labels, predictions):
    def value(kept):
        recalls = [recall_score(labels[kept], predictions[kept], pos_label=of_class) for of_class in (0, 1)]
        return np.sqrt(np.prod(recalls))

    return value


def mean_and_error(values: np.ndarray):
    """Over the rows, where at least half are there."""
    mean, error = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    for place, column in enumerate(values.T):
        there = column[~np.isnan(column)]
        if 2 * len(there) >= len(column):
            mean[place] = np.mean(there)
            error[place] = stats.sem(there) if len(there) > 1 else np.nan
    return mean, error


def gaussian_probability(cell: Cell) -> np.ndarray:
    """The Gaussian's CDF with the scaling: unlike the ECDF it has no ties that rounding could split."""
    raw = outcome(cell)
    draws = []
    for train, test in zip(raw.train_nll, raw.test_nll, strict=True):
        fitted = stats.norm(train.mean(), train.std())
        level = fitted.cdf(train).mean()
        draws.append(np.maximum(0, (fitted.cdf(test) - level) / (1 - level)))
    return np.mean(draws, axis=0)


def expected_gaussian_curves(cells) -> np.ndarray:
    seeds = []
    for cell in cells:
        labels, p = outcome(cell).labels, gaussian_probability(cell)
        metric = gss(labels, (p >= 0.5).astype(int))
        seeds.append([value_at(rate, labels, p * (1 - p), metric) for rate in RATES])
    return np.array(seeds)


# ----- curves


def test_curves_of_the_models_begin_at_the_mean_gss_of_the_seeds(fixed, cells):
    figure = FIGURES["gss-curves"](fixed)
    for task, title in (("cardio", "(i) Cardio"), ("cooler", "(i) Cooler")):
        axes = panel(figure, title)
        assert [one.get_label() for one in axes.lines] == list(DRAWS)
        for model in DRAWS:
            base = []
            for cell in of(cells, task=task, model=model):
                labels = outcome(cell).labels
                base.append(gss(labels, (fixed_probability(cell) >= 0.5).astype(int))(np.full(len(labels), True)))
            assert line(axes, model).get_ydata()[0] == pytest.approx(100 * np.mean(base))


def test_curves_are_means_over_the_seeds_with_their_standard_error(fixed, cells):
    axes = panel(FIGURES["conversion-curves"](fixed), "(i) Cardio")
    mean, error = mean_and_error(expected_gaussian_curves(of(cells, task="cardio", model=ENSEMBLE)))
    drawn = line(axes, "Gaussian + scale")
    np.testing.assert_allclose(drawn.get_xdata(), 100 * RATES)
    np.testing.assert_allclose(drawn.get_ydata(), 100 * mean, atol=1e-9)
    corners = {tuple(np.round(corner, 6)) for band in axes.collections for corner in band.get_paths()[0].vertices}
    for place, side in product((0, 10, 20), (-1, 1)):
        assert tuple(np.round([100 * RATES[place], 100 * (mean[place] + side * error[place])], 6)) in corners


def test_the_arrangement_is_the_papers(fixed):
    figure = FIGURES["gss-curves"](fixed)
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    assert titles == ["(i) Cardio", "(viii) Vowels", "(i) Cooler"]
    said = texts(figure)
    assert "(a) ODDS" in said
    assert '(b) ZeMA, sensors "fits"' in said
    assert panel(figure, "(i) Cardio").get_ylabel() == "GSS [%]"
    assert panel(figure, "(i) Cooler").get_xlabel() == "rejected [%]"


def test_figures_say_how_the_conversion_was_chosen_and_what_the_loaders_remark(fixed, oracle):
    assert "Q: ECDF + scale everywhere; 3 seeds; chosen on test labels" in texts(FIGURES["gss-curves"](fixed))
    said = texts(FIGURES["auroc-curves"](oracle))
    assert "best mean W of AUROC on the test labels (oracle)" in said


def test_the_oracle_draws_the_conversion_with_the_best_mean(oracle, cells, store):
    mine = of(cells, task="vowels", model=ENSEMBLE)
    means = {
        name: np.mean(
            [
                one.weighted_average
                for cell in mine
                for one in store.record(cell).judged
                if (one.conversion, one.uncertainty, one.metric) == (name, "total", "gss")
            ]
        )
        for name in within("mean_of_cdf")
    }
    best = max(means, key=means.get)
    assert best != "ecdf+scale*"  # or this would show nothing
    drawn = line(panel(FIGURES["gss-curves"](oracle), "(viii) Vowels"), ENSEMBLE).get_ydata()
    same = panel(FIGURES["conversion-curves"](oracle), "(viii) Vowels").lines[within("mean_of_cdf").index(best)]
    np.testing.assert_allclose(drawn, same.get_ydata())


def test_auroc_curves_begin_at_the_auroc_of_the_mean_score(oracle, cells):
    axes = panel(FIGURES["auroc-curves"](oracle), "(i) Cooler")
    for model in DRAWS:
        raw = [outcome(cell) for cell in of(cells, task="cooler", model=model)]
        expected = np.mean([roc_auc_score(one.labels, one.test_nll.mean(axis=0)) for one in raw])
        assert line(axes, model).get_ydata()[0] == pytest.approx(100 * expected)


def test_there_is_a_curve_for_each_of_the_eight_conversions_of_one_reading(fixed):
    axes = panel(FIGURES["conversion-curves"](fixed), "(i) Cardio")
    assert len(axes.lines) == len({(one.get_color(), str(one.get_linestyle())) for one in axes.lines}) == 8


def test_a_mean_curve_ends_with_the_curves_and_needs_half_of_the_seeds(oracle, cells):
    curves = [oracle.examples(cell, "ecdf+scale*").curve(by="total", metric="gss") for cell in of(cells, task="cardio")]
    mean = mean_curve(curves)
    values = np.array([np.where(curve.rejection_rate[-1] + 1e-9 >= RATES, curve.at(RATES), np.nan) for curve in curves])
    there = (~np.isnan(values)).sum(axis=0)
    np.testing.assert_array_equal(np.isnan(mean.mean), there < len(curves) / 2)
    assert np.isnan(mean.mean).any()
    single = mean_curve(curves[:1])
    assert np.isnan(single.error).all()
    assert single.mean[0] == curves[0].base


# ----- boxes and points


def test_boxes_have_the_quartiles_of_right_and_wrong_predictions_of_all_seeds(fixed, cells):
    axes = panel(FIGURES["boxes"](fixed), "(i) Cardio")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["AE", "Ens.", "SGHMC"]
    assert len(axes.patches) == 2 * len(DRAWS)
    mine = of(cells, task="cardio", model=ENSEMBLE)
    p = np.concatenate([fixed_probability(cell) for cell in mine])
    wrong = (p >= 0.5) != np.concatenate([outcome(cell).labels for cell in mine])
    for place, is_wrong in ((2, False), (3, True)):
        quartiles = np.percentile((4 * p * (1 - p))[wrong == is_wrong], [25, 75])
        heights = axes.patches[place].get_path().vertices[:, 1]
        np.testing.assert_allclose([heights.min(), heights.max()], quartiles, atol=1e-12)


def test_gains_stand_at_the_number_of_training_examples_without_sghmc(oracle, store, cells):
    figure = FIGURES["training-size"](oracle)
    assert [axes.get_title() for axes in figure.axes] == [UNCERTAINTY_NAMES[name] for name in UNCERTAINTIES]
    for axes, uncertainty in zip(figure.axes, UNCERTAINTIES, strict=True):
        points = {x: y for bars in axes.containers for x, y in zip(*bars[0].get_data(), strict=True)}
        for task, size in SIZES.items():
            gains = []
            for model in ("Deterministic AE", ENSEMBLE):
                key = (of(cells, task=task, model=model)[0].series, uncertainty, "gss")
                if model == "Deterministic AE" and uncertainty in ("epistemic", "var_nll"):
                    continue
                gains += [
                    one.gain
                    for cell in of(cells, task=task, model=model)
                    for one in store.record(cell).judged
                    if (one.conversion, one.uncertainty, one.metric) == (oracle.chosen[key], uncertainty, "gss")
                ]
            assert len(gains) == (3 if uncertainty in ("epistemic", "var_nll") else 6)
            assert points[size] == pytest.approx(100 * np.mean(gains))
        assert any(set(one.get_ydata()) == {0} and one.get_linestyle() == ":" for one in axes.lines)
    assert "2 models" in texts(figure)


# ----- illustrations


def test_the_conversion_is_the_cdf_and_its_scaling_begins_at_the_mean():
    scores = np.random.default_rng(0).gamma(4, size=400)
    upper, lower = conversion_figure(scores).axes[:2]
    x = upper.lines[0].get_xdata()
    plain, scaled = (upper.lines[place].get_ydata() for place in (0, 1))
    np.testing.assert_allclose(plain, stats.norm(scores.mean(), scores.std()).cdf(x))
    np.testing.assert_allclose(scaled, np.maximum(0, (plain - 0.5) / 0.5), atol=1e-12)
    uniform = upper.lines[2].get_ydata()
    np.testing.assert_allclose(uniform, stats.uniform(scores.min(), np.ptp(scores)).cdf(x))
    np.testing.assert_allclose(lower.lines[1].get_ydata(), scaled * (1 - scaled))
    assert upper.lines[-1].get_xdata()[0] == scores.mean()


def test_all_four_distributions_can_be_drawn():
    figure = conversion_figure(np.random.default_rng(0).gamma(4, size=50), distributions=list(PAPER_CONVERSIONS))
    assert len(figure.axes[0].lines) == 8 + 1


def test_the_illustrations_need_no_results(tmp_path):
    nothing = Results(store=CellStore(tmp_path), cells=())
    plane = FIGURES["plane"](nothing)
    maps = [axes.get_title()[:3] for axes in plane.axes if axes.get_title()]
    assert maps == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]
    assert FIGURES["conversion"](nothing) is not None


def test_the_pipeline_goes_from_raw_samples_to_scaled_bins():
    made = made_up()
    figure = pipeline_figure(made)
    assert "generated traces, not the real data" in texts(figure)
    by_row = np.array(figure.axes[2:]).reshape(4, 3)  # a column of panels for each stage
    raw, phase, bins, scaled = (by_row[stage, 0].lines[0].get_ydata() for stage in range(4))
    force = made.forces[0]
    start = int(np.argmax(force > 0))
    np.testing.assert_array_equal(raw, made.channels[0][:, 0])
    np.testing.assert_array_equal(phase, raw[start : start + len(phase)])
    assert len(phase) == min(np.count_nonzero(one > 0) for one in made.forces)
    means = [phase[step : step + 10].mean() for step in range(0, len(phase) - 9, 10)]
    np.testing.assert_allclose(bins, means)
    low, high = made.train[..., 0].min(), made.train[..., 0].max()
    np.testing.assert_allclose(scaled, (bins - low) / (high - low), atol=1e-6)


# ----- all together


def test_every_figure_has_a_caption_and_every_model_and_distribution_its_look():
    assert list(FIGURES) == list(CAPTIONS)
    assert list(MODEL_LOOKS) == list(MODELS)
    assert len({look.colour for look in MODEL_LOOKS.values()}) == len(MODELS)
    assert set(DISTRIBUTIONS) == set(PAPER_CONVERSIONS)
    assert set(UNCERTAINTY_NAMES) == set(UNCERTAINTIES)


def test_the_same_results_give_the_same_small_files(store, cells, tmp_path):
    some = of(cells, task="cardio")
    first, again = (write_figures(store, some, tmp_path / run, names=["boxes"])["boxes"] for run in ("first", "again"))
    assert [path.name for path in first] == ["boxes.svg", "boxes.pdf", "boxes.png"]
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()
        assert 1_000 < one.stat().st_size < 500_000
    assert first[0].read_text().startswith("<?xml")
    assert first[1].read_bytes().startswith(b"%PDF")


def test_matplotlibs_own_settings_are_left_alone(fixed, tmp_path):
    before = dict(mpl.rcParams)
    FIGURES["gss-curves"](fixed)
    assert dict(mpl.rcParams) == before


def test_a_figure_that_the_cells_do_not_have_is_left_out(store, cells, tmp_path):
    without = of(cells, model="Deterministic AE")
    written = write_figures(store, without, tmp_path, names=["boxes", "conversion-curves"], formats=["svg"])
    assert list(written) == ["boxes"]
    undone = [Cell("odds", "text", "-", "pima", ENSEMBLE, 0)]
    assert write_figures(store, undone, tmp_path, names=["boxes", "gss-curves", "training-size"]) == {}


def test_an_unfinished_grid_says_how_many_seeds_there_are(store, cells):
    some = [cell for cell in cells if cell.seed == 0 or cell.task == "cardio"]
    assert "1 to 3 seeds" in texts(FIGURES["boxes"](Results(store=store, cells=tuple(some))))


def test_generated_data_is_named_in_the_title(tmp_path):
    store, cell = CellStore(tmp_path), Cell("strath", "text", "-", "all", ENSEMBLE, 0)
    store.write(cell, outcome(cell, generated=True))
    for name in ("boxes", "gss-curves", "training-size", "conversion-curves"):
        assert "STRATH (generated traces, not the real data)" in texts(
            FIGURES[name](Results(store=store, cells=(cell,)))
        )


def test_protocols_and_variants_are_not_mixed(store):
    two = [Cell("odds", protocol, "-", "pima", ENSEMBLE, 0) for protocol in ("text", "authors")]
    with pytest.raises(ConfigError, match='one protocol, got cells of "authors", "text"'):
        Results(store=store, cells=tuple(two))
    other = [Cell("odds", "text", "-", "pima", ENSEMBLE, 0, variant=name) for name in ("-", "training.epochs=5")]
    with pytest.raises(ConfigError, match="one variant"):
        Results(store=store, cells=tuple(other))


@pytest.mark.parametrize(("asked", "message"), [({"names": ["pie"]}, "no figure 'pie'"), ({"formats": ["gif"]}, "gif")])
def test_unknown_figures_and_formats_are_refused(store, cells, tmp_path, asked, message):
    with pytest.raises(ConfigError, match=message):
        write_figures(store, cells, tmp_path, **{"names": ["boxes"]} | asked)
