"""A bare FastAPI application that answers with bytes from files: what an HTTP answer costs at the least.

    python benchmarks/bare.py FOLDER

Prints its port. `POST /NAME` and `GET /NAME` answer with the file NAME; `GET /unchanged/NAME` is a 304. The uvicorn
around it is set up as the registry's is: the same event loop and parser, one process, no access log.
"""

from __future__ import annotations

import os
import socket
import sys

import uvicorn
from fastapi import FastAPI, Response


def application(folder: str) -> FastAPI:
    """One endpoint for each file."""
    app = FastAPI(openapi_url=None)
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            _add(app, name, file.read())
    return app


def _add(app: FastAPI, name: str, data: bytes) -> None:
    @app.get(f"/{name}")
    @app.post(f"/{name}")
    async def answer() -> Response:
        return Response(data, media_type="application/json")

    @app.get(f"/unchanged/{name}")
    async def unchanged() -> Response:
        return Response(status_code=304, headers={"etag": '"it"'})


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(application(sys.argv[1]), http="httptools", ws="none", access_log=False, log_level="error")
    uvicorn.Server(config).run(sockets=[listening])
