"""A web application that publishes: uvicorn examples.fastapi_app:app.

One producer for the whole application, made and closed with it; its name servers are those of
MQCORE_NAMESRV.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request

from mqcore import Message, aio
from mqcore.errors import SendError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Opens the producer with the application and closes it with it."""
    async with aio.Producer(group="web") as producer:
        app.state.producer = producer
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def order(request: Request) -> dict[str, Any]:
    """Takes an order: it is accepted when a broker has it."""
    try:
        result = await request.app.state.producer.send(Message("orders", await request.body()))
    except SendError as error:
        raise HTTPException(503, error.message) from error
    return {"id": result.message_id}
