"""The routes for machines: /assess, the Open Inference Protocol, and what an operator needs."""
