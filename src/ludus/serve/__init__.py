"""Pool members over the OpenAI API: what `ludus serve` runs.

    request -> access (token, host) -> app (routes) -> chat_request (checked) -> writer (engine, text) -> answers (JSON)

Requests and answers themselves are `ludus.http`. Import what you need from the modules; some of them load
Starlette.
"""
