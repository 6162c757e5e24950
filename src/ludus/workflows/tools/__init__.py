"""What a model may call while it works on a task: one file per built-in tool, and users' own by `register_tool`."""
