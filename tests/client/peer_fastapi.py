# /// script
# requires-python = ">=3.11"
# dependencies = ["fastapi>=0.115,<1", "uvicorn>=0.34,<1", "python-multipart>=0.0.20,<1"]
# ///
"""A real API as a program: FastAPI, which writes the OpenAPI 3.1 document itself. Says its port when it can be called.

uv run --script peer_fastapi.py
"""

from __future__ import annotations

import socket
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import Cookie, FastAPI, Form, Header, HTTPException, Query, Request, Response
from pydantic import BaseModel

app = FastAPI(title="Gene library")
GENES = [{"id": number, "name": f"GENE{number}", "kind": "onco" if number % 2 else "other"} for number in range(1, 8)]
ADDED: list[dict[str, Any]] = []


class Place(BaseModel):
    chromosome: str
    start: int | None = None


class Gene(BaseModel):
    name: str
    kind: Literal["onco", "other"] = "other"
    place: Place | None = None


@app.get("/genes", operation_id="listGenes")
def list_genes(
    kind: Literal["onco", "other"] | None = None,
    limit: int = 100,
    ids: Annotated[list[int] | None, Query()] = None,
) -> list[dict[str, Any]]:
    """Every gene of a kind."""
    return [one for one in GENES if kind in (None, one["kind"]) and (not ids or one["id"] in ids)][:limit]


@app.get("/genes/{name}", operation_id="getGene")
def get_gene(name: str) -> dict[str, Any]:
    """One gene."""
    for one in GENES:
        if one["name"] == name:
            return one
    raise HTTPException(404, f"no gene {name}")


@app.post("/genes", operation_id="addGene", status_code=201)
def add_gene(gene: Gene, x_reason: Annotated[str | None, Header()] = None) -> dict[str, Any]:
    """Add a gene."""
    ADDED.append(gene.model_dump())
    return {"number": len(ADDED), "reason": x_reason, **gene.model_dump()}


@app.get("/cursor", operation_id="byCursor")
def by_cursor(cursor: int = 0, limit: int = 3) -> dict[str, Any]:
    """Pages by a cursor."""
    rest = cursor + limit if cursor + limit < len(GENES) else None
    return {"results": GENES[cursor : cursor + limit], "pagination": {"next_cursor": rest}}


@app.get("/page", operation_id="byPage")
def by_page(page: int = 1, size: int = 3) -> dict[str, Any]:
    """Pages by number."""
    return {"items": GENES[(page - 1) * size : page * size], "page": page}


@app.get("/link", operation_id="byLink")
def by_link(request: Request, response: Response, start: int = 0) -> list[dict[str, Any]]:
    """Pages by the header Link."""
    if start + 3 < len(GENES):
        response.headers["Link"] = f'</link?start={start + 3}>; rel="next", </link?start=0>; rel="first"'
    return GENES[start : start + 3]


@app.get("/endless", operation_id="endless")
def endless(cursor: str = "") -> dict[str, Any]:
    """A server whose cursor never changes."""
    return {"items": [{"cursor": cursor}], "next": "again"}


@app.get("/who", operation_id="whoAmI")
def who(
    authorization: Annotated[str | None, Header()] = None, taste: Annotated[str | None, Cookie()] = None
) -> dict[str, Any]:
    """What was sent."""
    return {"authorization": authorization, "taste": taste}


@app.post("/form", operation_id="sendForm")
def send_form(name: Annotated[str, Form()], age: Annotated[int, Form()]) -> dict[str, Any]:
    """A form."""
    return {"name": name, "age": age}


@app.get("/table", operation_id="asTable")
def as_table() -> Response:
    """CSV."""
    return Response("name,kind\nA,onco\nB,other\n", media_type="text/csv")


@app.get("/away", operation_id="goAway")
def go_away(to: str) -> Response:
    """A redirect."""
    return Response(status_code=307, headers={"Location": to})


@app.get("/large", operation_id="large")
def large(size: int) -> Response:
    """Many bytes."""
    return Response(b"x" * size, media_type="application/octet-stream")


@app.delete("/genes/{name}", operation_id="removeGene", status_code=204)
def remove_gene(name: str) -> None:
    """Nothing comes back."""


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"port {listener.getsockname()[1]}", flush=True)  # noqa: T201
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
