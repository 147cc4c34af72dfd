"""ChainEstimator: scikit-learn's face of a chain. It holds the settings and one fitted chain, and delegates to it.

Signs: every native name is high for anomalous (`nll`, `probability`). Only the methods of scikit-learn's contract
keep its signs: `predict` gives +1 for inliers and -1 for outliers, `score_samples` and `decision_function` are low
for outliers.

A fitted detector is never changed: `refer_by`, `learn` and `update` give a new one.
"""

import copy
import warnings
from abc import ABC, abstractmethod
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from sklearn.base import OutlierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from indubio.chain.assessment import Assessment
from indubio.chain.chain import Chain
from indubio.chain.explain import Contributions
from indubio.chain.other_names import no_attribute, refuse_other_parameters
from indubio.chain.parameters import WithSettings
from indubio.chain.scalars import ChainSettings
from indubio.chain.scorer import scores_of
from indubio.data import Reading, Schema
from indubio.decision import Referral
from indubio.drift import DriftMonitor, DriftReference, DriftTest
from indubio.errors import ConfigError, DataWarning
from indubio.judging import (
    FALSE_ALARMS,
    Conversion,
    Correction,
    FittedConversion,
    GroupConversions,
    Reference,
    Uncertainty,
    disagreement,
)
from indubio.message import Message, joined
from indubio.prepare import DataFinding, Missing, Preparation, Unseen

SPREAD = 2.0  # of what labels may do to the log-odds: from 1/2 to 7/8, one standard deviation


SettingsT = TypeVar("SettingsT", bound=ChainSettings)


class _Parameters(Protocol):
    def __call__(self, estimator: "ChainEstimator", /) -> tuple[Any, ...]: ...


class ChainEstimator(OutlierMixin, WithSettings, ABC):  # type: ignore[misc]
    """Base of the detectors.

    A subclass takes the parameters of `ChainSettings` among its own. Its `fit` makes a chain and hands it to `_keep`.

    Attributes:
        chain_: all that was learned; the attributes below are parts of it, None where there is none.
    """

    conversion: Conversion | None
    referral: Referral | None
    missing: Missing
    unseen: Unseen
    false_alarms: float | None
    anomaly_threshold: float
    smallest_group: int | None
    range_margin: float | None = None
    novelty_limit: float | None
    seed: int

    chain_: Chain
    _kept: tuple[tuple[Any, ...], Chain]  # the parameters, and the chain that follows them

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """A detector, unless parameters are called otherwise here: then it is said how."""
        refuse_other_parameters(cls.__name__, given, frozenset(cls._get_param_names()))
        made: Self = super().__new__(cls)
        return made

    def __getattr__(self, name: str) -> Any:
        if hasattr(type(self), name):
            return object.__getattribute__(self, name)  # a property that said itself why there is nothing
        raise no_attribute(type(self).__name__, name)

    @abstractmethod
    def settings_in_use(self) -> ChainSettings:
        """The settings with the defaults put in, checked."""

    def assess(self, X: Any, *, groups: Any = None, explain: bool = False) -> Assessment:
        """Verdict, probability and uncertainties of every example, in one pass through the model.

        Args:
            X: as for `fit`.
            groups: the group of each example, for a model that is calibrated by group; None takes the group column of
                a `Table`.
            explain: whether to tell, as `found.why`, what made the scores of anomalies and referrals; only an
                autoencoder's score can be told apart so.
        """
        return self._in_use().assess(X, groups, explain=explain)

    def contributions(self, X: Any) -> Contributions:
        """What every feature, or sensor and time step, or pixel, adds to the score of every example.

        Args:
            X: as for `fit`.
        """
        return self.fitted_chain.contributions(X)

    def monitored(
        self,
        X: Any,
        p_value: Float[np.ndarray, " examples"],
        monitor: DriftMonitor | None = None,
        *,
        test: DriftTest | None = None,
        known_anomalies: Bool[np.ndarray, " examples"] | None = None,
    ) -> DriftMonitor:
        """Watch for drift: the monitor after these examples; `monitor.drift()` says what is known by then.

        Args:
            X: examples, in the order they came.
            p_value: theirs, from `assess`; NaN where the model has none.
            monitor: the one from before; None starts a new one.
            test: how strict a new one is.
            known_anomalies: which examples are counted but not tested, where labels are known; None tests all.
        """
        return self.fitted_chain.monitored(X, p_value, monitor, test, known_anomalies)

    def nll(self, X: Any) -> Float[np.ndarray, "draws examples"]:
        """Score of every example under every draw; high means anomalous."""
        chain = self.fitted_chain
        return scores_of(chain.scorer, chain.preparation.prepared(X).values)

    def disagreement(self, X: Any, temperature: float = 1.0) -> Float[np.ndarray, " examples"]:
        """Share of the draws that do not explain an example, 1 - ESS / M: see `judging.disagreement`."""
        return disagreement(self.nll(X), temperature)

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> Int[np.ndarray, " examples"]:
        """+1 for inliers among the training examples, -1 for anomalies, by draws that have not seen them.

        Args:
            X: as for `fit`.
            y: as for `fit`.
            options: as for `fit`.
        """
        fitted = self.fit(X, y, **options)
        return np.asarray(fitted.labels_ if y is None else fitted.predict(X))

    def predict(self, X: Any) -> Int[np.ndarray, " examples"]:
        """+1 for inliers, -1 for anomalies; referral plays no part here, `assess` has it.

        Rows that it was fitted on are judged by the draws that have not seen them, until the detector is saved or
        learns; `assess` takes every row for a new one.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def decision_function(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Negative for anomalies, as scikit-learn wants it: `score_samples` minus `offset_`."""
        return self.score_samples(X) - self.offset_

    def score_samples(self, X: Any) -> Float[np.ndarray, " examples"]:
        """Minus the mean anomaly probability: low for anomalies, as scikit-learn wants it.

        Of a row that it was fitted on, by the draws that have not seen it, until the detector is saved or learns.
        """
        chain = self.fitted_chain
        prepared = chain.preparation.prepared(X)
        probability = chain.scored(prepared).uncertainty.probability
        if chain.held_out is not None and chain.calibrated.correction is None:
            probability = chain.held_out.put_into(probability, prepared.values)
        return -probability

    def refer_by(self, rule: Referral, X: Any = None, y: Any = None, *, groups: Any = None) -> Self:
        """A new detector with another referral rule, without training again; this one stays as it is.

        Args:
            rule: the new rule.
            X: examples that were not trained on, to fit the rule on: good ones without `y`. None takes the reference
                examples.
            y: their labels, 1 or True for an anomaly, for a rule that learns from them: of examples as they come, with
                as many anomalies among them as there are.
            groups: as for `assess`.
        """
        return self._with_rule_of(self._in_use().referring_by(rule, X, y, groups, self.anomaly_threshold))

    def learn(self, X: Any, y: Any, *, recent: Any, groups: Any = None, spread: float = SPREAD) -> Self:
        """A new detector that has learned from labels, good ones and anomalies; this one stays as it is.

        Nothing is trained: the log-odds of an anomaly are corrected, see `judging.Correction`. So verdicts,
        probabilities and their uncertainties change, and scores, p-values, drift and explanations stay what they were.

        Args:
            X: all examples that people have labelled, chosen by what was known of them before (uncertainty, score) or
                at random, and not by their label; what was learned before is replaced and not built upon.
            y: 1 or True for an anomaly; both kinds are needed.
            recent: examples as they come, labelled or not, that were not trained on: the last batch, say. They tell how
                common anomalies are. The referral rule is fitted on these again, since all uncertainties change; a
                budget is then a share of such.
            groups: of X and then of `recent`, as for `assess`.
            spread: how far labels may move the log-odds, as a standard deviation, before any is seen.
        """
        chain = self._in_use()
        rule = chain.decider.rule
        if rule.NEEDS_LABELS:
            raise ConfigError(
                f"{type(rule).__name__} was fitted on probabilities that would change. Choose another rule "
                "(`refer_by`), learn, and then fit it again, on labelled examples that were not learned from."
            )
        both = (None, None) if groups is None else (groups[: len(X)], groups[len(X) :])
        learned = chain.corrected_by(X, y, recent, both, spread, self.anomaly_threshold)
        return self.of_chain(learned) if learned.decider.rule is rule else self._with_rule_of(learned)

    def read_by(self, reading: Reading) -> Self:
        """A new detector that also knows how the files were read that it was fitted on."""
        chain = self._in_use()
        return self.of_chain(replace(chain, preparation=replace(chain.preparation, reading=reading)))

    def _with_rule_of(self, chain: Chain) -> Self:
        """A new detector of this chain, with its rule among the settings."""
        new = copy.copy(self)
        new.referral = chain.decider.rule
        return new._keep(chain)

    def of_chain(self, chain: Chain) -> Self:
        """A fitted detector with these settings and this chain, such as one that was read from a file."""
        return copy.copy(self)._keep(chain)

    @property
    def decision_threshold(self) -> float:
        """The mean probability from which on an example is an anomaly: `anomaly_threshold`, unless costs decide it."""
        rule = self.referral if self.referral is not None else self.DEFAULTS["referral"]
        assert isinstance(rule, Referral)
        return rule.anomaly_threshold(self.anomaly_threshold)

    @property
    def offset_(self) -> float:
        """What `decision_function` subtracts from `score_samples`.

        An example at the threshold is an anomaly here, and 0 is an inlier in scikit-learn: hence the next smaller
        number.
        """
        return -float(np.nextafter(self.decision_threshold, -1.0))

    @property
    def schema_(self) -> Schema:
        """Names, kinds, ranges and categories of the training columns."""
        return self.fitted_chain.preparation.schema

    @property
    def preparation_(self) -> Preparation:
        """What is done to examples before they are scored: matched by name, checked, filled in, scaled."""
        return self.fitted_chain.preparation

    @property
    def input_shape_(self) -> tuple[int, ...]:
        """The shape of one example, without the axis of the examples."""
        return self.fitted_chain.preparation.input_shape

    @property
    def n_features_in_(self) -> int:
        """Features of a table, or the length of a window."""
        return self.fitted_chain.preparation.input_shape[0]

    @property
    def feature_names_in_(self) -> Shaped[np.ndarray, " features"]:
        """Column names; scikit-learn asks whether there is this attribute, so there is none without names."""
        names = self.fitted_chain.preparation.names
        if names is None:
            raise AttributeError("the training data had no names of features.")
        return np.array(names, dtype=object)

    @property
    def reading_(self) -> Reading | None:
        """How the files were read that it was fitted on; None where it was not fitted on files, see `read_by`."""
        return self.fitted_chain.preparation.reading

    @property
    def findings_(self) -> tuple[DataFinding, ...]:
        """What was odd about the training data: mostly nothing."""
        return self.fitted_chain.preparation.findings

    @property
    def unseen_alarms_(self) -> Float[np.ndarray, " folds"] | None:
        """Of each stretch that was held out, the share that the others would call anomalies, as of one not seen.

        None where neighbours were not found to be alike, or a single part was held out.
        """
        chain = self.fitted_chain
        shares = chain.calibrated.alarms_on_unseen(self.decision_threshold)
        return shares if len(shares) and chain.preparation.neighbours_alike else None

    @property
    def conversion_(self) -> FittedConversion:
        """The conversion, fitted on the scores of the reference examples."""
        return self.fitted_chain.calibrated.conversion

    @property
    def group_conversions_(self) -> GroupConversions | None:
        """The CDFs of each group that has enough examples; None without `smallest_group`."""
        return self.fitted_chain.calibrated.by_group

    @property
    def correction_(self) -> Correction | None:
        """What was learned from labels; None before `learn`."""
        return self.fitted_chain.calibrated.correction

    @property
    def reference_(self) -> Reference:
        """Mean scores of the reference examples, which p-values come from."""
        return self.fitted_chain.calibrated.reference

    @property
    def largest_reference_nll_(self) -> float:
        """The largest mean score of a reference example."""
        return self.fitted_chain.calibrated.largest

    @property
    def n_reference_(self) -> int:
        """How many reference examples there are."""
        return self.fitted_chain.calibrated.n_reference

    @property
    def n_training_(self) -> int:
        """How many examples `fit` was given."""
        return self.fitted_chain.n_training

    @property
    def training_scores_(self) -> Float[np.ndarray, " examples"] | None:
        """Mean score of every training example by the draws that have not seen it.

        None for a model that was loaded, and of examples that were streamed. With `TrainScores` every draw has seen all
        of them, and scores them too low.
        """
        held_out = self.fitted_chain.held_out
        return None if held_out is None else held_out.scores

    @property
    def labels_(self) -> Int[np.ndarray, " examples"]:
        """+1 for the training examples that are inliers to the draws that have not seen them, -1 for anomalies."""
        held_out = self.fitted_chain.held_out
        if held_out is None:
            raise AttributeError("there are labels of training examples only while they are in memory, after `fit`.")
        return np.where(held_out.probability >= self.decision_threshold, -1, 1)

    @property
    def reference_uncertainty_(self) -> Uncertainty:
        """Probability and uncertainties of the reference examples; after `learn`, of the recent ones."""
        return self.fitted_chain.good

    @property
    def drift_reference_(self) -> DriftReference:
        """The distributions of the training data."""
        return self.fitted_chain.drift_reference

    @property
    def referral_threshold_(self) -> float:
        """Uncertainty above which a verdict is referred."""
        return self.fitted_chain.decider.referral_threshold

    def __repr__(self, **options: Any) -> str:
        """The parameters, as scikit-learn writes them, and what was learned, once something was."""
        parameters = str(super().__repr__(**options))
        if "chain_" not in vars(self):
            return parameters
        what = {1: "rows", 2: "windows", 3: "images"}[len(self.input_shape_)]
        size = " x ".join(map(str, self.input_shape_))
        return (
            f"{parameters}, fitted on {self.n_training_} {what} of {size} values: "
            f"{self.conversion_.draws} draws, {self.n_reference_} reference examples"
        )

    def _html_repr(self) -> str:
        """What a notebook shows; scikit-learn calls it."""
        if "chain_" not in vars(self):
            return str(super()._html_repr())
        from indubio.report import detector_html

        return detector_html(self)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _keep(self, chain: Chain) -> Self:
        """Take a fitted chain; this detector is fitted then."""
        self.chain_ = chain
        self._kept = _parameters(type(self))(self), chain
        return self

    def _with_warning(self) -> Self:
        """This detector, after one warning that lists what is odd about the training data; none where nothing is."""
        odd = [finding for finding in self.findings_ if finding.kind != "neighbours"]  # that was seen to
        if odd:
            told = joined([str(finding) for finding in odd], "\n- ")
            warnings.warn(Message("before you rely on this detector:\n- {told}", told=told), DataWarning, stacklevel=3)
        return self

    @property
    def fitted_chain(self) -> Chain:
        """All that was learned; refused before `fit`."""
        if "chain_" not in vars(self):  # scikit-learn's own look at all attributes takes longer
            check_is_fitted(self)
        return self.chain_

    def _in_use(self) -> Chain:
        """The chain, with what the parameters say now of its verdicts: scikit-learn lets them be changed at any time.

        Checked when they are not what they were: to check them takes as long as to prepare an example.
        """
        if "chain_" not in vars(self):
            check_is_fitted(self)
        now = _parameters(type(self))(self)
        if self._kept[0] != now:
            rule, fitted = self.settings_in_use().referral, self.chain_
            chain = fitted.deciding_by(rule, self.anomaly_threshold, fitted.decider.referral_threshold)
            chain = chain.limited_by(self.novelty_limit)
            self._kept = now, chain
        return self._kept[1]

    def _with_defaults(self) -> dict[str, Any]:
        """The parameters with a default, and the rate of false alarms, which the conversion goes by too."""
        found = super()._with_defaults()
        conversion = found["conversion"]
        if not isinstance(conversion, Conversion):
            return found | {"false_alarms": FALSE_ALARMS}  # refused where all settings are checked
        given = (rate for rate in (self.false_alarms, conversion.own_rate, FALSE_ALARMS) if rate is not None)
        rate = next(given)
        return found | {"conversion": conversion.at_rate(rate), "false_alarms": rate}

    def _settings(self, kind: type[SettingsT]) -> SettingsT:
        """The parameters as one object, with the defaults put in."""
        given = {field.name: getattr(self, field.name) for field in fields(kind)}
        return kind(**given | self._with_defaults())


@cache
def _parameters(model: type[ChainEstimator]) -> _Parameters:
    """Gives the values of all parameters of such a detector."""
    read: _Parameters = attrgetter(*model._get_param_names())
    return read
