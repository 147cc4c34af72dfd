"""What people meet in a notebook: reprs, slices, plots."""

import html.parser

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pytest
from matplotlib.figure import Figure
from sklearn.ensemble import IsolationForest

from indubio import Detector
from indubio.data import read_table
from indubio.decision import Verdict
from indubio.detector import EnsembleDetector
from indubio.errors import ConfigError, ShapeError
from indubio.report import plots

GOOD = np.random.default_rng(0).normal(size=(120, 3))
NEW = np.concatenate([np.random.default_rng(1).normal(size=(30, 3)), np.full((10, 3), 6.0)])
LABELS = np.repeat([0, 1], [30, 10])


@pytest.fixture(scope="module")
def detector():
    return Detector().fit(GOOD)


@pytest.fixture(scope="module")
def found(detector):
    return detector.assess(NEW)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


class Balance(html.parser.HTMLParser):
    """Refuses tags that are closed in another order than they were opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def assert_well_formed(text):
    balance = Balance()
    balance.feed(text)
    assert not balance.open


@pytest.mark.parametrize("which", [LABELS == 1, slice(30, None), range(30, 40), np.arange(-10, 0)], ids=str)
def test_a_part_of_an_assessment_is_that_of_these_examples(detector, found, which):
    part = found[which]
    assert len(part) == 10
    for name, values in detector.assess(NEW[30:]).to_dict().items():
        np.testing.assert_array_equal(part.to_dict()[name], values)


def test_one_example_is_an_assessment_too(found):
    assert len(found[3]) == len(found[[3]]) == 1
    assert found[-1].nll == found.nll[-1:]
    assert len(found[[]]) == 0


def test_what_was_passed_through_goes_with_its_examples():
    table = read_table(pa.table({"id": [str(n) for n in range(120)], "a": GOOD[:, 0], "b": GOOD[:, 1]}), ids=["id"])
    found = Detector().fit(table).assess(table)
    assert found[[7, 3]].to_arrow().column("id").to_pylist() == ["7", "3"]


@pytest.mark.parametrize(
    ("which", "error"), [([True] * 3, ShapeError), ("REFER", ConfigError), ([0.5], ConfigError), (99, IndexError)]
)
def test_a_choice_that_means_nothing_is_refused(found, which, error):
    with pytest.raises(error):
        found[which]


def test_a_fitted_detector_says_what_it_was_fitted_on(detector):
    assert repr(Detector()) == "Detector()"
    assert repr(detector).startswith("Detector(), fitted on 120 rows of 3 values: ")
    windows = Detector().fit(np.random.default_rng(0).normal(size=(40, 16, 2)))
    assert "fitted on 40 windows of 16 x 2 values" in repr(windows)


def test_a_notebook_shows_the_chain_and_what_is_odd():
    with pytest.warns(UserWarning, match="before you rely"):
        odd = Detector().fit(np.column_stack([GOOD, np.zeros(120)]))
    shown = odd._repr_mimebundle_()["text/html"]
    assert_well_formed(shown)
    for words in ("Preparation", "Scorer", "Calibrated", "Decider", "Before you rely on it", "never changes."):
        assert words in shown


def test_any_detector_shows_itself_too():
    forest = EnsembleDetector(IsolationForest(n_estimators=10), members=3).fit(GOOD)
    assert_well_formed(forest._repr_html_())
    assert "fitted on 120 rows" in forest._repr_html_()


def test_a_notebook_shows_the_most_anomalous_examples_with_why(found):
    shown = found._repr_html_()
    assert_well_formed(shown)
    assert "40 examples" in shown
    assert f"<td>{int(found.nll.argmax())}</td>" in shown
    assert "<td>never seen</td>" in shown
    assert_well_formed(found[[]]._repr_html_())


def test_names_from_files_cannot_break_out_of_the_page():
    table = read_table(pa.table({"<script>": ["<b>&"] * 120, "a": GOOD[:, 0], "b": GOOD[:, 1]}), ids=["<script>"])
    shown = Detector().fit(table).assess(table)._repr_html_()
    assert "<script>" not in shown
    assert "<b>&<" not in shown


@pytest.mark.parametrize("name", ["probability", "uncertainty", "scores", "scatter", "timeline", "verdicts"])
def test_every_plot_draws_on_the_axes_it_is_given(found, name):
    axes = Figure().subplots()
    assert getattr(found.plot, name)(ax=axes) is axes
    assert axes.has_data()
    assert "40 examples" in axes.get_title("left")
    assert not plt.get_fignums()


def test_a_summary_tells_counts_and_the_most_anomalous_with_why(detector):
    found = detector.assess(NEW, explain=True)
    first, title, head, *rows = found.summary(most=5).splitlines()
    assert first == f"40 examples: {', '.join(f'{sum(found.verdict == one)} {one}' for one in Verdict)}."
    assert "5 most anomalous" in title
    assert head.split() == ["example", "verdict", "probability", "doubt", "mostly", "why"]
    flagged = np.flatnonzero(found.verdict != "INLIER")
    assert [int(row.split()[0]) for row in rows] == flagged[np.argsort(-found.nll[flagged], kind="stable")][:5].tolist()
    assert all("never seen" in row for row in rows)
    assert found[found.verdict == "INLIER"].summary().count("\n") == 0


def test_frames_of_other_libraries_hold_the_same(found):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    assert isinstance(found.to_pandas(), pandas.DataFrame)
    assert isinstance(found.to_polars(), polars.DataFrame)
    np.testing.assert_array_equal(found.to_polars()["nll"].to_numpy(), found.to_pandas()["nll"])


@pytest.mark.parametrize("name", ["probability", "uncertainty", "scores", "scatter", "rejection", "confusion"])
def test_labels_tell_anomalies_apart(found, name):
    axes = getattr(plots, name)(found, labels=LABELS)
    assert axes.has_data()
    with pytest.raises(ShapeError, match="40 examples"):
        getattr(plots, name)(found, labels=LABELS[:3])


def test_the_points_of_a_plot_are_the_examples(found):
    axes = found.plot.timeline("novelty")
    drawn = np.concatenate([dots.get_offsets() for dots in axes.collections])
    np.testing.assert_allclose(drawn[np.argsort(drawn[:, 0])][:, 1], found.novelty)


def test_contributions_of_one_example(detector):
    axes = plots.contributions(detector, NEW, -1)
    assert axes.has_data()
    with pytest.raises(ConfigError, match="40 examples"):
        plots.contributions(detector, NEW, 40)


def test_a_plot_that_is_not_known_names_those_that_are(found):
    with pytest.raises(ConfigError, match="it has probability"):
        found.plot.uncertainty(of="entropy")
