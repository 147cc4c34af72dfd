"""Commands of the server: `indubio serve`, `live`, `mcp`, `keys` and `audit`."""
