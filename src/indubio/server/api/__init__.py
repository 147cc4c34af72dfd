"""The routes for machines: the Open Inference Protocol, /assess, and what an operator asks."""
