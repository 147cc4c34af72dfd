"""Model files: what is written and where, what is kept, and other versions."""

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from torch import nn

import indubio
from indubio import AnchoredEnsemble, Budget, Conv1d, Dense, Detector, OwnNetwork, Training, load, save
from indubio.errors import ConfigError, DataWarning, ModelFileError
from indubio.judging import UNCERTAINTIES, Gaussian, Uncertainty, quantify
from indubio.storage import FORMAT, read_manifest
from indubio.storage.detector_state import FITTED, OPTIONAL, fitted_attributes
from indubio.storage.kept_uncertainty import MOST, NAMES, KeptUncertainty
from tests.golden.make import parts
from tests.stored_models import ROWS, TRAINED, as_saved, assert_same, data_file, fitted, reseal, trained

GOLDEN = Path(__file__).parents[2] / "golden"
MODELS = sorted(str(path.parent.relative_to(GOLDEN)) for path in GOLDEN.glob("v*/*/expected.json"))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return fitted()


@pytest.fixture
def model(detector, tmp_path) -> Path:
    save(detector, tmp_path / "model")
    return tmp_path / "model"


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ----- what is written


def test_a_model_is_four_files_and_nothing_beside_it(model):
    assert sorted(name.split("-")[0] for name in contents(model)) == ["README.md", "arrays", "manifest.json", "weights"]
    assert names_in(model.parent) == ["model"]


def test_the_same_detector_gives_the_same_bytes(detector, model, tmp_path):
    save(detector, tmp_path / "again")
    assert contents(model) == contents(tmp_path / "again")


@pytest.mark.parametrize("features", [6, 21])
def test_a_model_is_hardly_larger_than_its_weights(features, tmp_path):
    rows = np.random.default_rng(0).normal(size=(3000, features))
    detector = Detector(posterior=AnchoredEnsemble(members=10), training=Training(epochs=1), conversion=Gaussian())
    save(detector.fit(rows), tmp_path / "model")
    weights = 4 * sum(weight.size for weight in detector.draws_.weights.values())
    scores = 8 * detector.n_reference_
    uncertainties = 8 * len(NAMES) * min(detector.n_reference_, MOST)
    size = sum(map(len, contents(tmp_path / "model").values()))
    assert size < weights + scores + uncertainties + 38_000


def odd_detector() -> Detector:
    with pytest.warns(DataWarning):
        return Detector().fit(pd.DataFrame(ROWS, columns=["a", "b", "c|d"]).assign(**{"mode|x": 7.0}))


def test_findings_are_kept_in_the_model_and_said_on_its_card(tmp_path):
    detector = odd_detector()
    save(detector, tmp_path / "model")
    assert load(tmp_path / "model").findings_ == detector.findings_ != ()
    card = (tmp_path / "model" / "README.md").read_text()
    assert '## Before you rely on it\n\n- "mode\\|x" never changes.' in card
    save(fitted(), tmp_path / "clean")
    assert "Before you rely" not in (tmp_path / "clean" / "README.md").read_text()
    assert read_manifest(tmp_path / "clean").fitted["preparation_"]["findings"] == []


def test_a_finding_of_another_kind_is_refused(tmp_path):
    save(odd_detector(), tmp_path / "model")
    changed = {"kind": "<b>all is well</b>"}
    reseal(tmp_path / "model", lambda plain: plain["fitted"]["preparation_"]["findings"][0].update(changed))
    with pytest.raises(ModelFileError, match=r"findings.0.kind"):
        load(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::indubio.errors.DataWarning")  # of few rows
def test_the_card_says_what_the_model_is(tmp_path):
    table = parts({"a|b": [1.0, 2.0, 3.0], "machine": ["A", "B", "*"]})
    save(Detector().fit(table), tmp_path / "model")
    card = (tmp_path / "model" / "README.md").read_text()
    assert "trained on 3 examples of 4 features" in card
    assert r"| a\|b | number | 1 to 3 |" in card
    assert r"| machine | category | \*, A, B |" in card
    assert '"kind": "prototypes"' in card
    assert read_manifest(tmp_path / "model").checksum[:12] in card


def test_the_card_may_be_edited_or_removed(detector, model):
    (model / "README.md").write_text("Ask Anna before you use this.")
    assert_same(detector, load(model), ROWS)
    (model / "README.md").unlink()
    assert_same(detector, load(model), ROWS)


def test_the_manifest_can_be_read_alone(model):
    data_file(model, "weights").unlink()
    manifest = read_manifest(model)
    assert (manifest.format, manifest.indubio) == (FORMAT, indubio.__version__)
    assert manifest.settings["posterior"]["kind"] == "prototypes"


def test_every_fitted_attribute_has_its_place(detector):
    assert {name for name in vars(detector) if name.endswith("_")} == {"chain_"}
    attributes = fitted_attributes(detector)
    assert attributes.keys() == FITTED.keys()
    assert {name for name, value in attributes.items() if value is None} == OPTIONAL


def test_every_link_of_the_chain_comes_back(detector, model):
    """What a model file would lose shows here: a field that is None after loading and was not before.

    But for what was said of the training rows, which are many, and of use only where these rows are.
    """

    def fields(link, path=""):
        for field in dataclasses.fields(link):
            value = getattr(link, field.name)
            yield f"{path}{field.name}", value is None
            if path.count(".") < 1 and dataclasses.is_dataclass(value):
                yield from fields(value, f"{path}{field.name}.")

    assert dict(fields(load(model).chain_)) == dict(fields(as_saved(detector).chain_))


# ----- where it is written


def test_a_model_is_not_overwritten_unless_asked(detector, model):
    with pytest.raises(ModelFileError, match=r"already holds a model. Pass `overwrite=True`"):
        save(detector, model)
    other = fitted(seed=1)
    save(other, model, overwrite=True)
    assert_same(other, load(model), ROWS)


def test_overwriting_leaves_nothing_of_the_old_model(model):
    save(fitted(seed=1), model, overwrite=True)
    assert len(list(model.glob("*.safetensors"))) == 2


def test_overwriting_mends_a_damaged_model(detector, model):
    data_file(model, "weights").write_bytes(b"broken")
    (model / "manifest.json").write_text("broken")
    save(detector, model, overwrite=True)
    assert_same(detector, load(model), ROWS)


def test_what_a_killed_save_left_is_passed_over_and_then_removed(detector, model):
    (model / ".manifest.json.0a1b2c3d.tmp").write_bytes(b"half a manif")
    (model / f"weights-{'0' * 16}.safetensors").write_bytes(b"half of the weights")
    assert_same(detector, load(model), ROWS)
    save(detector, model, overwrite=True)
    assert sorted(name.split("-")[0] for name in contents(model)) == [
        ".lock", "README.md", "arrays", "manifest.json", "weights",
    ]  # fmt: skip


def test_what_systems_leave_in_folders_does_no_harm(detector, model):
    (model / ".DS_Store").write_bytes(b"finder")
    assert_same(detector, load(model), ROWS)


def test_an_empty_folder_will_do(detector, tmp_path):
    (tmp_path / "model").mkdir()
    save(detector, tmp_path / "model")
    assert_same(detector, load(tmp_path / "model"), ROWS)


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_other_things_in_it_is_left_alone(detector, overwrite, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ModelFileError, match=r'belong to no model: "thesis.tex". Choose another path'):
        save(detector, tmp_path, overwrite=overwrite)
    assert names_in(tmp_path) == ["thesis.tex"]


def test_a_file_is_left_alone(detector, tmp_path):
    (tmp_path / "model").write_text("notes")
    with pytest.raises(ModelFileError, match="is a file"):
        save(detector, tmp_path / "model", overwrite=True)


def test_a_folder_that_is_not_there_is_an_error_that_says_so(detector, tmp_path):
    with pytest.raises(ModelFileError, match="cannot be written: No such file or directory"):
        save(detector, tmp_path / "nowhere" / "model")
    with pytest.raises(ModelFileError, match=r"there is no model in .*nowhere"):
        load(tmp_path / "nowhere")


def test_a_link_to_a_model_is_as_good_as_the_model(detector, model, tmp_path):
    (tmp_path / "current").symlink_to(model)
    assert_same(detector, load(tmp_path / "current"), ROWS)
    other = fitted(seed=1)
    save(other, tmp_path / "current", overwrite=True)
    assert (tmp_path / "current").is_symlink()
    assert_same(other, load(model), ROWS)


def test_paths_may_be_texts(detector, tmp_path):
    save(detector, str(tmp_path / "model"))
    assert_same(detector, load(str(tmp_path / "model")), ROWS)


def test_saving_and_loading_side_by_side_gives_whole_models(tmp_path):
    detectors = [fitted(seed=seed) for seed in range(3)]
    path, failures, done = tmp_path / "model", [], threading.Event()
    save(detectors[0], path)

    def watched(work):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the test reports them
            failures.append(error)

    def keep_saving(detector):
        for _ in range(8):
            save(detector, path, overwrite=True)

    def keep_loading():
        while not done.is_set():
            load(path)

    savers = [threading.Thread(target=watched, args=[lambda d=d: keep_saving(d)]) for d in detectors]
    reader = threading.Thread(target=watched, args=[keep_loading])
    for thread in (*savers, reader):
        thread.start()
    for thread in savers:
        thread.join()
    done.set()
    reader.join()
    assert not failures
    scores = load(path).nll(ROWS)
    assert any(np.array_equal(scores, detector.nll(ROWS)) for detector in detectors)
    assert len(list(path.glob("*.safetensors"))) == 2


def test_models_that_are_saved_first_at_the_same_time_do_not_mix(tmp_path):
    detectors = [fitted(seed=seed) for seed in range(4)]
    refused = []

    def first(detector):
        try:
            save(detector, tmp_path / "model")
        except ModelFileError as error:
            refused.append(error)

    threads = [threading.Thread(target=first, args=[detector]) for detector in detectors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 3
    assert names_in(tmp_path) == ["model"]
    load(tmp_path / "model")


# ----- what cannot be saved


def test_only_a_fitted_detector_can_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(Detector(), tmp_path / "model")


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": Dense(widths=(4,), activation="tanh")},
        {"architecture": Dense(widths=(5,))},
        {"posterior": AnchoredEnsemble(members=3)},
        {"likelihood__noise": "per_feature"},
    ],
)
def test_settings_that_were_changed_after_the_fit_are_not_passed_off_as_its_own(change, tmp_path):
    with pytest.raises(ModelFileError, match=r"changed after `fit`.* Fit again"):
        save(trained().set_params(**change), tmp_path / "model")
    assert not names_in(tmp_path)


def test_an_attribute_that_storage_does_not_know_is_not_lost_silently(tmp_path):
    detector = fitted()
    detector.curiosity_ = np.zeros(3)
    with pytest.raises(ModelFileError, match=r"no place for the attributes .*curiosity_"):
        save(detector, tmp_path / "model")


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    detector = fitted()
    next(iter(detector.draws_.weights.values()))[0, 0] = float("nan")
    with pytest.raises(ModelFileError, match=r"`weights.encoder.0.weight` holds NaN"):
        save(detector, tmp_path / "model")


# ----- devices and own networks


def test_a_device_that_is_not_there_is_an_error_that_says_so(detector, model):
    with pytest.raises(ModelFileError, match=r"`device` 'cuda:7' cannot be used here"):
        load(model, device="cuda:7")
    reseal(model, lambda plain: plain["settings"].update(device="cuda:7"))
    with pytest.raises(ModelFileError, match=r"`device` 'cuda:7' cannot be used here"):
        load(model)
    assert_same(detector, load(model, device="cpu"), ROWS)


def own(activation: type[nn.Module] = nn.Tanh, hidden: int = 6) -> OwnNetwork:
    return OwnNetwork(
        encoder=lambda shape: nn.Sequential(nn.Linear(shape[0], hidden), activation(), nn.Linear(hidden, 2)),
        decoder=lambda shape: nn.Sequential(nn.Linear(2, hidden), activation(), nn.Linear(hidden, shape[0])),
    )


def test_an_own_network_must_be_brought_along(tmp_path):
    detector = trained(architecture=own())
    save(detector, tmp_path / "model")
    with pytest.raises(ConfigError, match=r"the user's own network, .* load\(path, architecture=OwnNetwork"):
        load(tmp_path / "model")
    loaded = load(tmp_path / "model", architecture=own())
    assert_same(detector, loaded, ROWS)
    assert isinstance(loaded.architecture, OwnNetwork)
    assert "architecture=OwnNetwork" in (tmp_path / "model" / "README.md").read_text()


def test_another_network_than_the_one_saved_is_refused(tmp_path):
    save(trained(architecture=own()), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"does not fit the network that was passed.*must be float32"):
        load(tmp_path / "model", architecture=own(hidden=7))
    with pytest.raises(ModelFileError, match="same shapes, but it computes something else"):
        load(tmp_path / "model", architecture=own(activation=nn.ReLU))
    with pytest.raises(ConfigError, match="saved with the user's own network"):
        load(tmp_path / "model", architecture=Dense())


def test_a_model_that_brings_its_architecture_takes_no_other(model):
    with pytest.raises(ConfigError, match=r"brings its own architecture. Leave `architecture` out"):
        load(model, architecture=own())


# ----- the uncertainties of the training examples


def uncertainties(count: int) -> Uncertainty:
    random = np.random.default_rng(count)
    p = random.uniform(size=(3, count)) ** 2
    return quantify(p, random.gamma(2.0, size=(3, count)), 3.0, 100)


def test_every_uncertainty_is_kept():
    assert {*UNCERTAINTIES, "probability"} == {*NAMES} == set(KeptUncertainty.__dataclass_fields__)


def test_of_few_examples_all_are_kept_as_they_are():
    full = uncertainties(MOST)
    kept = KeptUncertainty.of(full).uncertainty
    for name in NAMES:
        np.testing.assert_array_equal(getattr(kept, name), getattr(full, name))


@pytest.mark.parametrize("examples", [MOST + 1, 99_999, 314_159])
@pytest.mark.parametrize("rule", [Budget(share=0.05), Budget(share=0.0333, by="epistemic"), Budget(inlier_weight=1.0)])
def test_of_many_some_are_kept_whole_and_a_budget_holds_among_all(examples, rule):
    full = uncertainties(examples)
    kept = KeptUncertainty.of(full).uncertainty
    np.testing.assert_allclose(kept.total, kept.probability * (1 - kept.probability), atol=1e-12)
    assert len(kept.total) == MOST
    referred = np.mean(rule.doubt(full) > rule.fit(kept))
    assert abs(referred - rule.share) < 4 * np.sqrt(rule.share / MOST)


# ----- versions


def test_every_format_has_golden_models():
    assert {path.name for path in GOLDEN.glob("v*")} == {f"v{version}" for version in range(1, FORMAT + 1)}


@pytest.mark.parametrize("golden", MODELS)
def test_a_golden_model_loads_and_finds_what_it_found_when_it_was_made(golden):
    expected = json.loads((GOLDEN / golden / "expected.json").read_text())
    detector = load(GOLDEN / golden / "model")
    examples = parts(expected["examples"])
    found = detector.assess(examples).to_dict()
    for name, values in expected["assessment"].items():
        if found[name].dtype.kind == "f":
            np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-6, err_msg=name)
        else:
            assert found[name].tolist() == values
    np.testing.assert_allclose(detector.nll(examples), expected["nll"], rtol=1e-6, atol=1e-6)
    for share, threshold in expected["thresholds"].items():
        now = detector.refer_by(Budget(share=float(share))).referral_threshold_
        assert now == pytest.approx(threshold, abs=1e-6)


def test_loading_needs_no_module_that_could_execute_what_it_reads():
    code = f"""
import sys
from indubio import load
def refuse(event, args):
    if event in ("pickle.find_class", "exec", "compile", "marshal.loads", "os.system", "subprocess.Popen"):
        if watching: raise SystemExit(event)
watching = False
load({str(GOLDEN / MODELS[0] / "model")!r})
sys.addaudithook(refuse)
watching = True
load({str(GOLDEN / MODELS[0] / "model")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_a_model_does_not_wait_for_torch():
    model = str(GOLDEN / MODELS[0] / "model")
    code = f"import sys; from indubio import load; load({model!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("width", [2**41, 10**18])
def test_an_impossible_network_is_refused_before_there_is_memory_for_it(width, tmp_path):
    save(trained(), tmp_path / "model")
    huge = {"widths": [width]}
    reseal(tmp_path / "model", lambda plain: plain["settings"]["architecture"].update(huge))
    with pytest.raises(ModelFileError, match="impossible network"):
        load(tmp_path / "model")


def test_windows_too_short_for_the_convolutions_are_found_at_once(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 20, 1))
    save(Detector(**TRAINED | {"architecture": Conv1d(linear=(4,))}).fit(rows), tmp_path / "model")
    far = {"kernels": [10**12, 2]}
    reseal(tmp_path / "model", lambda plain: plain["settings"]["architecture"].update(far))
    with pytest.raises(ModelFileError, match="too short"):
        load(tmp_path / "model")


@pytest.mark.parametrize("golden", MODELS)
def test_a_golden_model_that_is_saved_again_goes_on_as_it_was(golden, tmp_path):
    detector, expected = load(GOLDEN / golden / "model"), json.loads((GOLDEN / golden / "expected.json").read_text())
    save(detector, tmp_path / "again")
    examples = parts(expected["examples"])
    before, after = detector.assess(examples), load(tmp_path / "again").assess(examples)
    for name, values in before.to_dict().items():
        np.testing.assert_array_equal(getattr(after, name), values, err_msg=name)


def test_a_rate_that_is_set_after_the_fit_is_not_saved_as_if_it_had_been_fitted(tmp_path):
    detector = fitted()
    before = detector.assess(ROWS)
    save(detector.set_params(false_alarms=0.3), tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.false_alarms == 0.1
    np.testing.assert_array_equal(again.assess(ROWS).probability, before.probability)
