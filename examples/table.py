"""A table of parts, from a file to verdicts, a report and a saved model.

    python examples/table.py

The data is real and comes with scikit-learn: cases of breast cancer, of which the benign ones are the good examples.
Everything is written to the folder `table-example`.
"""

from pathlib import Path

from sklearn.datasets import load_breast_cancer

from indubio import Budget, Detector, evaluate, load, save
from indubio.data import read_table
from indubio.report import html_report

folder = Path("table-example")
folder.mkdir(exist_ok=True)

# A file as a factory would have it: an id, measurements, and for some parts a label.
frame = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
frame.insert(0, "case", [f"C{number:04}" for number in range(len(frame))])
frame["malignant"] = 1 - frame.pop("target")
good = frame[frame.malignant == 0]
good[:250].to_csv(folder / "good.csv", index=False)
frame.drop(index=good.index[:250]).to_csv(folder / "new.csv", index=False)

# Learn from good examples only.
roles = {"ids": ["case"], "label": "malignant"}
detector = Detector().fit(read_table(folder / "good.csv", **roles))

# Judge new ones: probability, uncertainties, verdict; the ids come along.
new = read_table(folder / "new.csv", **roles)
found = detector.assess(new)
print(found)
print(found.to_pandas()[["case", "verdict", "probability", "epistemic", "aleatoric"]].head())

# Which measurements made the score of the most anomalous case?
largest = detector.contributions(new).top(3)
worst = found.nll.argmax()
print(f"{new.passed['case'][worst]}: {', '.join(largest.names[worst])}")

# Does the uncertainty know which verdicts are wrong? W, Base and Gain of the accuracy-rejection curve.
result = evaluate(new.labels, found.prediction, found.total, scores=found.nll)
print(f"Base {result.gss.base:.3f}, W {result.gss.weighted_average:.3f}, Gain {result.gss.gain:+.3f}")

# A report for people, and a model that can be trusted: no pickle, checksums, the same verdicts to the bit.
(folder / "report.html").write_text(html_report(detector, new, found=found))
save(detector, folder / "model", overwrite=True)
again = load(folder / "model").refer_by(Budget(share=0.1))
print(again.assess(new))
