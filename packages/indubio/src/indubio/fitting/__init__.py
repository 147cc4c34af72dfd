"""Fits: from good examples to a chain, one way for all of them.

fitted_chain    the whole story: plan, data, scores, chain
fit_settings    what a fit is set to, as one object; `defaults` has what None stands for
training_data   examples in memory, surveyed; `streams` has those that are larger than memory
posterior_fit   draws of a posterior as what scores; `folds` and `on_workers` train them in parts
trimming        training rows that look like anomalies are left out
updates         a detector that also learns from confirmed examples
"""
