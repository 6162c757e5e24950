"""Who is let in: names, sites, methods, paths, sizes, tokens. Each refusal over a real socket."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

import pytest
from tests.web.conftest import INDEX, Serve

NEWS = "/api/news?run=study%2Fkuhn"
TOKEN = "0123456789abcdef"  # noqa: S105


@pytest.mark.parametrize(
    "host",
    [
        *(
            "evil.example",
            "127.0.0.1.evil.example",
            "",
            "localhost.evil.example:80",
            "[",
            "10.0.0.1",
            "0.0.0.1",
            "127.1",
        ),
        *("me@127.0.0.1", "127.0.0.1:80:80", "127.0.0.1:x", "[::1]evil", "[::1%25eth0]", "127.0.0.1/", "localhost."),
    ],
)
def test_a_name_that_is_not_this_machines_is_refused(serve: Serve, runs: Path, host: str) -> None:
    server = serve(runs)
    for path in ("/", "/api/runs", "/assets/a.js", NEWS):
        assert server.ask(path, headers={"host": host}).status in (400, 421)
    for good in ("127.0.0.1", "localhost:1", "[::1]:80"):
        assert server.ask("/api/runs", headers={"host": good}).status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1", "http://127.0.0.1.evil.example"])
def test_another_sites_request_is_refused(serve: Serve, runs: Path, origin: str) -> None:
    server = serve(runs)
    for path in ("/api/runs", "/api/session", NEWS):
        assert server.ask(path, headers={"origin": origin}).status == 403
    assert server.ask("/api/runs", headers={"origin": f"http://127.0.0.1:{server.port}"}).status == 200
    assert server.ask("/api/runs", headers={"sec-fetch-site": "cross-site"}).status == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"])
def test_every_other_method_is_refused(serve: Serve, runs: Path, method: str) -> None:
    server = serve(runs)
    for path in ("/", "/api/runs", "/api/runs/study%2Fkuhn", "/nowhere"):
        answer = server.ask(path, method)
        assert answer.status in (400, 404, 405)
    assert server.ask("/api/runs", "HEAD").status == 200
    assert server.ask("/api/runs", "HEAD").body == b""


@pytest.mark.parametrize(
    "path",
    [
        "/../../../etc/passwd",
        "/assets/../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/api/runs/../../etc",
        "/api/runs/..%2F..%2Fetc",
        "/api/runs/%2Fetc",
        "/api/runs/study",
        "/api/runs/study%2Fkuhn%2Fepisodes",
        "/api/runs/study%2F%2E%2E%2Fstudy%2Fkuhn",
        "/api/runs/a%00b",
        "/api/runs/%ff",
        "/api/nothing",
        "/.git/config",
    ],
)
def test_no_path_leads_out_of_the_folder(serve: Serve, runs: Path, path: str) -> None:
    answer = serve(runs).ask(path)
    assert answer.status in (400, 404)
    assert b"root:" not in answer.body


def test_pages_have_addresses_and_headers_that_keep_them_to_themselves(serve: Serve, runs: Path) -> None:
    server = serve(runs)
    for path in ("/", "/run/study%2Fkuhn", "/run/a/league", "/compare?run=a"):
        answer = server.ask(path)
        assert (answer.status, answer.body) == (200, INDEX)
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert server.ask("/", headers={"if-none-match": '"1"'}).status == 304


def test_what_has_not_changed_is_not_sent_again(serve: Serve, runs: Path) -> None:
    server = serve(runs)
    first = server.ask("/api/runs")
    assert server.ask("/api/runs", headers={"if-none-match": first.headers["etag"]}).status == 304


def test_a_token_is_needed_and_goes_for_a_cookie(serve: Serve, runs: Path) -> None:
    server = serve(runs, token=TOKEN)
    assert server.ask("/").status == 200  # the page has no content of its own
    assert server.ask("/api/runs").status == 401
    assert server.enter().json == {"needs_token": True}
    assert server.enter("x" * 16).status == 403
    answer = server.enter(TOKEN)
    assert answer.status == 200
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert server.ask("/api/runs").status == 200
    assert server.ask("/api/runs", headers={"cookie": "ludus_web_0=guess"}).status == 401


def test_the_control_token_works_once(serve: Serve, runs: Path) -> None:
    server = serve(runs, control=True)
    token = server.site.sessions.control_token
    assert server.enter().json["may_control"] is False
    assert server.enter(token).json["may_control"] is True
    assert server.enter().json["may_control"] is True
    other = serve(runs, control=True)
    other.site.sessions.control_token = ""
    assert other.enter(token).status == 403


def test_oversized_requests_are_refused(serve: Serve, runs: Path) -> None:
    server = serve(runs)
    assert server.ask("/api/runs?filter=" + "a" * 9000).status == 414
    with contextlib.suppress(ConnectionResetError):  # it may hang up before all of it was sent
        assert server.ask("/api/runs", headers={"x-long": "a" * 100_000}).status in (400, 431)
    assert server.ask("/api/session", "POST", body=b" " * 100_000).status == 413
    assert server.ask("/api/session", "POST", body=b'{"token": 1}').status == 400
    assert server.ask("/api/session", "POST", body=b"[" * 10_000).status == 400
    assert server.ask("/api/session", "POST", body=b"\xff").status == 400
    plain = server.ask("/api/session", "POST", body=b"{}", headers={"content-type": "text/plain"})
    assert plain.status == 415
    assert server.ask("/api/runs").status == 200


def test_garbage_on_the_socket_costs_its_own_connection(serve: Serve, runs: Path) -> None:
    server = serve(runs)
    for garbage in (
        b"\0" * 1000,
        b"GET /api/runs\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\x16\x03\x01",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert server.ask("/api/runs").status == 200


def test_nothing_of_the_environment_is_served(serve: Serve, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "do-not-tell")
    server = serve(runs)
    server.enter()
    told = json.dumps([server.get("/api/session"), server.get("/api/runs")])
    assert "do-not-tell" not in told


def test_a_link_out_of_the_folder_is_not_followed(serve: Serve, runs: Path, old_run: Path) -> None:
    (runs / "elsewhere").symlink_to(old_run)
    server = serve(runs)
    assert [row["id"] for row in server.get("/api/runs")["rows"]] == ["study/kuhn"]
