"""The OpenAI chat API from the server's side: requests checked, answers written.

`ludus.serve` answers with it for people, `ludus.workflows.interception` for programs that are being trained. Import
what you need from the modules; `http` loads Starlette.
"""
