"""What people's labels say of the detector."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indubio.decision import UncertaintyThreshold
from indubio_server.review.label_evidence import LabelEvidence, evidence
from indubio_server.store import review
from tests.stored_cases import assessed, stored


def of(uncertainty, *, labels=None, predictions=None, referred=None, control_share=0.0) -> LabelEvidence:
    count = len(uncertainty)
    return LabelEvidence(
        labels=np.full(count, np.nan) if labels is None else np.array(labels, dtype=float),
        predictions=np.zeros(count, dtype=bool) if predictions is None else np.array(predictions, dtype=bool),
        referred=np.ones(count, dtype=bool) if referred is None else np.array(referred, dtype=bool),
        uncertainties=dict.fromkeys(("total", "epistemic", "aleatoric"), np.array(uncertainty, dtype=float)),
        days=1.0,
        control_share=control_share,
    )


@given(
    st.lists(st.floats(0, 0.25).map(lambda value: round(value, 2)), min_size=1, max_size=30),
    st.floats(0, 1) | st.just(1.0),
)
def test_where_every_case_counts_once_a_share_gives_the_smallest_threshold_that_refers_no_more(uncertainty, share):
    values = np.array(uncertainty)
    found = of(values).at_share(share, "total")
    if share == 1:  # 0 too, which lies above no uncertainty that was seen
        assert found.referred == len(values)
        assert UncertaintyThreshold(threshold=found.threshold).threshold < 0
        return
    assert found.threshold == min(one for one in values if sum(values > one) <= share * len(values) * (1 + 1e-12))
    assert found.referred == np.count_nonzero(values > found.threshold)


def test_a_control_case_stands_for_all_the_verdicts_that_were_not_kept():
    found = of([0.2, 0.1, 0.05], labels=[1, 1, 0], referred=[True, False, False], control_share=0.25)
    other = found.at_share(0.5, "total")
    assert other.of == 9
    assert (other.threshold, other.referred) == (0.1, 1)
    assert (other.caught, other.missed) == (1, 4)  # both anomalies are called normal; the second stands for four


@pytest.mark.parametrize(
    ("sent", "kept", "words"),
    [
        ((9, 10), (1, 20), "Referral pays"),
        ((0, 20), (9, 10), "the wrong cases"),
        ((2, 4), (1, 4), "do not show a clear difference"),
        ((3, 4), (0, 0), "label some verdicts that were not referred"),
        ((0, 0), (1, 4), "Nobody has decided"),
    ],
)
def test_the_finding_is_as_sure_as_the_numbers_allow(sent, kept, words):
    wrong = [*(place < sent[0] for place in range(sent[1])), *(place < kept[0] for place in range(kept[1]))]
    referred = np.arange(len(wrong)) < sent[1]
    found = of(np.linspace(0, 0.2, len(wrong)), labels=wrong, referred=referred)
    assert words in found.finding()


def test_there_is_no_curve_before_three_anomalies_are_labelled():
    assert of([0.1] * 3).curves() == {}
    assert of([0.1, 0.2, 0.15], labels=[1, 1, 0]).curves() == {}
    assert set(of([0.2, 0.1, 0.1, 0.15], labels=[1, 1, 1, 0], predictions=[0, 1, 1, 0]).curves()) == {
        "total",
        "epistemic",
        "aleatoric",
    }


def test_only_cases_of_the_model_count_and_none_that_its_data_referred(store):
    cases = stored(
        store,
        [
            assessed(total=0.1),
            assessed(total=0.2),
            assessed(reason="bad_input"),
            assessed(reason="out_of_range"),
            assessed(model="saw"),
        ],
    )
    store.write(lambda c: review(c, cases[0].id, "ada", "A"))
    store.write(lambda c: review(c, cases[1].id, "ada", "U"))
    found = store.read(lambda c: evidence(c, "press", version=None, control_share=0.1))
    assert found.uncertainties["total"].tolist() == [0.1, 0.2]
    np.testing.assert_array_equal(found.labels, [1.0, np.nan])
    assert len(store.read(lambda c: evidence(c, "press", version=7, control_share=0.1))) == 0
