"""What all tests share."""

import hypothesis
import torch

# A busy machine is not a failing test.
hypothesis.settings.register_profile("indubio", deadline=None)
hypothesis.settings.load_profile("indubio")
# Tests run in two processes on two cores: more threads only fight each other.
torch.set_num_threads(1)
