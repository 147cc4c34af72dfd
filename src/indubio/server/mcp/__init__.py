"""Models and the review queue for assistants that speak the Model Context Protocol: read-only, on this machine.

looking         what each tool answers, as plain data
example_files   files of an allowed folder as examples
mcp_app         the tools and resources as the protocol has them
"""
