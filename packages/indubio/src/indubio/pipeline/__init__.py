"""What every detector is made of: a chain of objects from examples to verdicts.

preparation     inputs.Preparation   examples in any form -> rows that are checked, filled in and scaled
scorer          Scorer       -> nll (M, N); `autoencoder_scorer` is one, the members of an ensemble are another
calibrated      Calibrated   -> probabilities and uncertainties
decider         Decider      -> Assessment
explainer       Explainer    what made the scores, where that is asked
chain           Chain        the four, in this order
estimator       ChainEstimator: a scikit-learn estimator that holds a chain and delegates to it
parameters      settings as scikit-learn's parameters; `scalars` has those that every detector has
held_out_rows   what is said of the rows that it was fitted on
kept_rows       rows that a detector keeps beside the sums of its draws
"""
