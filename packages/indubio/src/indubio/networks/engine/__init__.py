"""What trains and scores networks, from arrays to arrays: `engine` chooses the compiled core, or torch."""
