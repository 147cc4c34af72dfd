"""What one writes in an afternoon: a FastAPI endpoint that calls the model for every request. Nothing is kept."""

import sys
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from indubio import load


class Request(BaseModel):
    """Rows by column name."""

    rows: list[dict[str, float]]


def build(model: str) -> FastAPI:
    """The application."""
    torch.set_num_threads(1)
    detector = load(model)
    names = detector.schema_.names
    app = FastAPI()

    @app.get("/ready")
    async def ready() -> bool:
        return True

    @app.post("/assess")
    async def assess(request: Request) -> list[dict[str, Any]]:
        import pandas as pd

        rows = np.array([[row[name] for name in names] for row in request.rows])
        found = detector.assess(pd.DataFrame(rows, columns=names)).to_dict()
        columns = {name: values.tolist() for name, values in found.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    return app


if __name__ == "__main__":
    uvicorn.run(build(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
