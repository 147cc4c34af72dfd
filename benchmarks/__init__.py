"""Speed, always as a ratio to something else measured in the same run: these numbers travel between machines."""
