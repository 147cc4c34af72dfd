"""Which of the many pairs of posterior, network and likelihood are tried every time; the others are slow tests."""

from collections.abc import Mapping

import pytest

OFTEN = {
    "prototypes",
    "random_features",
    "deterministic",
    "vae",
    "mc_dropout",
    "bayes_by_backprop",
    "anchored_ensemble",
}
NETWORKS = {"dense", "conv1d", "own", "its own", "its own, of windows"}
LIKELIHOODS = {"gaussian", "gaussian, heteroscedastic", "student, sigma per feature", "beta"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark pairs of what is seldom used as slow: each is tried with what is common all the same."""
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is not None and _rare(spec.params):
            item.add_marker(pytest.mark.slow)


def _rare(params: Mapping[str, object]) -> bool:
    posterior = params.get("posterior", params.get("trained"))
    network = params.get("network", params.get("trained_network"))
    if posterior is None or network is None:
        return False
    seldom = [str(posterior) not in OFTEN, str(network) not in NETWORKS]
    likelihood = params.get("likelihood")
    if likelihood is not None:
        seldom += [str(likelihood) not in LIKELIHOODS, str(network) not in ("dense", "its own")]
    return sum(seldom) > 1
