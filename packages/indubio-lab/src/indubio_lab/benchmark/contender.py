"""The detectors that are compared: one explicit list, and whatever else is named or given.

    "default"                            `Detector()`; others of ours in `OURS`, or as a TOML file of settings
    "knn", "lof", ...                    the peers in `PEERS`
    "pyod.models.abod:ABOD"              any class of scikit-learn or PyOD, with its own settings
    Contender.of("mine", detector)       any detector that is in memory

A peer runs twice. Plain, it is the package's own detector on z-scores: AUROC, AUPR and its cost. As refits, it is ten
of it through `EnsembleDetector`, with the calibration, conversion and referral of `Detector()`: the same uncertainty
from another score. A new peer is one entry of `PEERS`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.base import clone

from indubio.chain import ChainEstimator
from indubio.detector import Detector, EnsembleDetector, Score, distance_to_centre
from indubio.errors import ConfigError, MissingExtraError, quoted
from indubio.judging import Ecdf
from indubio.posteriors import AnchoredEnsemble, RandomFeatures

Form = Literal["own", "plain", "refits"]
MEMBERS = 10  # refits, as many as the default ensemble has members
REFITS = "-refits"  # how the name of a peer's other form ends


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A detector that takes part.

    Args:
        name: in files and on the command line.
        title: in tables.
        make: gives the detector, not fitted.
        form: "own" for ours, which scale and assess; "plain" for others as they are; "refits" for ten of them.
        scored_by: of others: a function of the fitted model and the rows, high for anomalous; None is its own score.
        most_rows: of slow ones: training rows beyond which a set is left out.
        most_features: of slow ones: features beyond which a set is left out.
    """

    name: str
    title: str
    make: Callable[[], Any]
    form: Form = "plain"
    scored_by: Score | None = None
    most_rows: int | None = None
    most_features: int | None = None

    @classmethod
    def of(cls, name: str, detector: Any, *, title: str | None = None, scored_by: Score | None = None) -> "Contender":
        """A detector in memory, not fitted: ours, or one of scikit-learn or PyOD.

        Args:
            name: for files and tables.
            detector: it is copied, never changed.
            title: for tables; None is the name.
            scored_by: as above.
        """
        form: Form = "own" if isinstance(detector, ChainEstimator) else "plain"
        make = partial(clone, detector, safe=False)
        return cls(name=name, title=title or name, make=make, form=form, scored_by=scored_by)

    @property
    def slow(self) -> bool:
        """Whether it takes part only when it is asked for."""
        return self.most_rows is not None or self.most_features is not None

    def refits(self) -> "Contender":
        """This detector in an `EnsembleDetector`, which fits it several times on resampled rows."""
        return replace(self, name=self.name + REFITS, title=f"{self.title}, refits", form="refits")

    def left_out(self, rows: int, features: int) -> str | None:
        """Why it does not run on so many training rows and features; None if it does."""
        for size, most, word in ((rows, self.most_rows, "training rows"), (features, self.most_features, "features")):
            if most is not None and size > most:
                return f"{size} {word}, more than {most}"
        return None

    def detector(self, seed: int, train_rows: int) -> Any:
        """The detector, not fitted.

        Args:
            seed: of everything random.
            train_rows: how many rows it will learn from: calibration is chosen by it.
        """
        made = self.make()
        if self.form == "own":
            return made.set_params(seed=seed)
        if self.form == "plain":
            random = [name for name in _parameters(made) if name.rpartition("__")[2] == "random_state"]
            return made.set_params(**dict.fromkeys(random, seed)) if random else made
        ours = Detector()
        settings = ours.settings_in_use()
        return EnsembleDetector(
            made,
            members=MEMBERS,
            scored_by=self.scored_by,
            one_by_one=False,  # rows of a benchmark are scored together, as other packages do it
            conversion=settings.conversion,
            calibration=settings.calibration_for(train_rows, (1,)),
            referral=settings.referral,
            anomaly_threshold=ours.anomaly_threshold,
            seed=seed,
        )

    @cached_property
    def described(self) -> dict[str, Any]:
        """What its results depend on, as plain values."""
        made = self.make()
        said: dict[str, Any] = {"class": type(made).__qualname__, "parameters": _parameters(made)}
        if self.scored_by is not None:
            said["scored_by"] = getattr(self.scored_by, "__qualname__", repr(self.scored_by))
        if isinstance(made, Detector):  # a default that changes is another detector
            settings = made.settings_in_use()
            said["in_use"] = [repr(settings), repr(settings.architecture_for((1,), rows=1))]
        if self.form == "refits":
            ours = Detector().settings_in_use()
            said["as"] = [MEMBERS, *map(repr, (ours.conversion, ours.referral, ours.calibration))]
        return said


def furthest_neighbour(model: Any, rows: Float[np.ndarray, "examples features"]) -> Float[np.ndarray, " examples"]:
    """Distance to the k-th nearest training row."""
    return np.asarray(model.kneighbors(rows)[0][:, -1])


def installed(place: str, **settings: Any) -> Any:
    """A detector of another package.

    Args:
        place: module and class, such as "sklearn.svm:OneClassSVM".
        settings: of the class.
    """
    module, _, name = place.partition(":")
    package = module.partition(".")[0]
    try:
        made = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if find_spec(package) is not None and error.name != "torch":
            raise ConfigError(f"there is no module {module!r} in {package}: a detector is module:Class.") from None
        missing = "torch" if error.name == "torch" else package
        wanted = f'"indubio[{missing}]"' if missing in ("torch", "pyod") else missing
        raise MissingExtraError(f"{place} needs {missing}: pip install {wanted}.") from None
    except AttributeError:
        raise ConfigError(f"{module} has no detector {name!r}.") from None
    return made(**settings)


def _peer(name: str, title: str, place: str, /, scored_by: Score | None = None, **settings: Any) -> Contender:
    return Contender(name=name, title=title, make=partial(installed, place, **settings), scored_by=scored_by)


_NEIGHBOURS = "sklearn.neighbors:NearestNeighbors"

PEERS: dict[str, Contender] = {
    peer.name: peer
    for peer in (
        _peer("nn", "nearest neighbour", _NEIGHBOURS, furthest_neighbour, n_neighbors=1),
        _peer("knn", "kNN, k = 5", _NEIGHBOURS, furthest_neighbour, n_neighbors=5),
        _peer("gmm", "Gaussian mixture", "sklearn.mixture:GaussianMixture", n_components=5, reg_covar=1e-3),
        _peer("kmeans", "k-means, 10 centres", "sklearn.cluster:KMeans", distance_to_centre, n_clusters=10, n_init=1),
        _peer("lof", "LOF", "sklearn.neighbors:LocalOutlierFactor", novelty=True),
        _peer("iforest", "isolation forest", "sklearn.ensemble:IsolationForest"),
        _peer("ocsvm", "one-class SVM", "sklearn.svm:OneClassSVM"),
        # With all components, PyOD's default, it divides by 0 where a column is constant.
        _peer("pca", "PCA", "pyod.models.pca:PCA", n_components=0.95),
        _peer("hbos", "HBOS", "pyod.models.hbos:HBOS"),
        _peer("copod", "COPOD", "pyod.models.copod:COPOD"),
        _peer("ecod", "ECOD", "pyod.models.ecod:ECOD"),
        replace(_peer("lunar", "LUNAR", "pyod.models.lunar:LUNAR"), most_rows=1000, most_features=50),
    )
}
OURS: dict[str, Contender] = {
    ours.name: ours
    for ours in (
        Contender(name="default", title="indubio", make=Detector, form="own"),
        Contender(
            name="random_features",
            title="random features",
            make=partial(Detector, posterior=RandomFeatures()),
            form="own",
            most_features=200,
        ),
        Contender(  # the paper's best, with the conversion that it found to work everywhere
            name="anchored_ensemble",
            title="anchored ensemble",
            make=partial(Detector, posterior=AnchoredEnsemble(), conversion=Ecdf()),
            form="own",
            most_features=100,
        ),
    )
}


def contenders(
    names: Iterable[str] | None = None, *, own: Mapping[str, Any] = MappingProxyType({}), refits: bool = True
) -> list[Contender]:
    """Who takes part, ours first.

    Args:
        names: of `OURS` and `PEERS`, or "module:Class"; None is all that is installed and not slow.
        own: detectors in memory by name, not fitted.
        refits: whether peers also run through `EnsembleDetector`.
    """
    chosen = _all_installed() if names is None else list(names)
    given = [Contender.of(name, detector) for name, detector in own.items()]
    found = [*given, *(_named(name) for name in chosen)]
    names_there = [one.name for one in found]
    twice = [name for name in dict.fromkeys(names_there) if names_there.count(name) > 1]
    if twice:
        raise ConfigError(f"a detector must be named once; {quoted(twice)} is there more than once.")
    ours = [one for one in found if one.form == "own"]
    peers = [one for one in found if one.form != "own"]
    return [*ours, *peers, *(one.refits() for one in peers if refits)]


def _named(name: str) -> Contender:
    if name in OURS:
        return OURS[name]
    if name in PEERS:
        peer = PEERS[name]
    elif ":" in name:
        title = name.partition(":")[2]
        peer = Contender(name=title.lower(), title=title, make=partial(installed, name))
    else:
        raise ConfigError(
            f"there is no detector {name!r}; there are {quoted([*OURS, *PEERS])}, and any class as "
            '"module:Class", such as "pyod.models.abod:ABOD".'
        )
    peer.make()  # refused now, not in every cell
    return peer


def _all_installed() -> list[str]:
    def there(peer: Contender) -> bool:
        try:
            peer.make()
        except MissingExtraError:
            return False
        return True

    return [name for name, one in (OURS | PEERS).items() if not one.slow and there(one)]


def _parameters(made: Any) -> dict[str, str]:
    """Its parameters as text; none of a model that does not tell them."""
    given = made.get_params() if hasattr(made, "get_params") else {}
    return {name: repr(given[name]) for name in sorted(given)}
