# %% [markdown]
# # A table of parts
#
# Measurements of good parts are all there is to learn from. This page goes from such a table to verdicts on new parts, shows where the detector is in
# doubt, why it said what it said, and what it costs to let a person look at the doubtful ones.
#
# The data is real and comes with scikit-learn: 569 tumours, 30 measurements each. The benign ones are the good parts here.
#
# To run it yourself: `pip install --constraint constraints.txt . pandas`.

# %%
import pandas as pd
from sklearn.datasets import load_breast_cancer

data = load_breast_cancer(as_frame=True)
good, bad = data.data[data.target == 1], data.data[data.target == 0]
training, new = good[:250], pd.concat([good[250:], bad])
labels = [0] * len(good[250:]) + [1] * len(bad)  # only to judge the verdicts at the end
training.shape, new.shape

# %% [markdown]
# ## Fit
# Nothing has to be chosen, and nothing is trained by steps: the default remembers good rows, and takes a new row for what the rows nearest to it say. It
# does so in several *draws*, each of which has seen other rows, and compares scores with rows that a draw has **not** seen.

# %%
from indubio import Detector

detector = Detector().fit(training)
detector

# %% [markdown]
# ## Assess
# One pass gives everything: verdict, probability, uncertainties, novelty, p-value.

# %%
found = detector.assess(new)
found

# %%
found.to_pandas(new.index).head()

# %% [markdown]
# An example is an anomaly from a probability of 1/2 on. By default that is where one good example in ten scores as high, so about a tenth of the good
# ones are called anomalies. Where that is too many, say so: `Detector(false_alarms=0.01)`.

# %%
ax = found.plot.probability(labels)

# %% [markdown]
# ## Where it is in doubt
# *Aleatoric* uncertainty: each draw is torn. *Epistemic*: the draws disagree. Both are largest between good and bad. The verdicts with most doubt are
# referred to a person, alarms first.

# %%
ax = found.plot.scatter("epistemic")

# %%
referred = found[found.verdict == "REFER"]
referred.to_pandas()[["verdict", "reason", "probability", "epistemic", "aleatoric"]].head()

# %% [markdown]
# ## Why
# What made the score of the first anomaly, feature by feature:

# %%
from indubio.report import plots

ax = plots.contributions(detector, bad, 0)

# %% [markdown]
# ## What referral buys
# With labels at hand it can be measured: how good are the verdicts that are left when the most uncertain ones are rejected?

# %%
ax = found.plot.rejection(labels, by=["total", "epistemic"])

# %%
ax = found.plot.confusion(labels)

# %% [markdown]
# ## Another rule, without fitting again
# What a missed anomaly, a false alarm and a look cost, and how common anomalies are, says which verdict is the cheapest. Every rule gives a new detector;
# the old one stays as it is.

# %%
from indubio import Cost

cheapest = detector.refer_by(Cost(missed_anomaly=50.0, false_alarm=1.0, review=0.5, prevalence=0.02))
cheapest.assess(new)

# %% [markdown]
# ## Keep it
# A model is a folder without any code in it: numbers, settings and checksums. It scores the same to the bit on every machine.

# %%
import tempfile

from indubio import load, save

folder = tempfile.mkdtemp()
save(detector, f"{folder}/model")
bool((load(f"{folder}/model").assess(new).nll == found.nll).all())

# %% [markdown]
# The same without Python: `indubio fit good.csv --out model`, `indubio assess new.csv --model model --out found.csv`,
# `indubio report new.csv --model model --out report.html`.
