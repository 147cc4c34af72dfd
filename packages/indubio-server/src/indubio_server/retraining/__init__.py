"""New versions of a model from what people said: jobs, and what they make."""
