"""Registered models in an MLflow registry's SQLite database, written as rows: its API takes hours for as many.

    PYTHON benchmarks/mlflow_rows.py URL COUNT

Run by a Python that has MLflow. COUNT model versions, 25 to a registered model, whose last one is "prod".
"""

from __future__ import annotations

import sys
import time

from mlflow.store.db.utils import _initialize_tables, create_sqlalchemy_engine
from mlflow.store.model_registry.dbmodels.models import SqlModelVersion, SqlRegisteredModel, SqlRegisteredModelAlias
from sqlalchemy.orm import Session

EACH = 25
_AT_ONCE = 400


def fill(url: str, count: int) -> None:
    """Make the tables, then the rows."""
    engine = create_sqlalchemy_engine(url)
    _initialize_tables(engine)
    now = int(time.time() * 1000)
    for first in range(0, count // EACH, _AT_ONCE):
        with Session(engine) as session:
            for model in range(first, min(first + _AT_ONCE, count // EACH)):
                name = f"drafter-{model:05d}-eagle3"
                times = {"creation_time": now, "last_updated_time": now}
                session.add(SqlRegisteredModel(name=name, **times))
                session.flush()
                session.add_all(
                    SqlModelVersion(name=name, version=i + 1, source=f"s3://bucket/{name}/{i}", status="READY", **times)
                    for i in range(EACH)
                )
                session.add(SqlRegisteredModelAlias(name=name, alias="prod", version=EACH))
            session.commit()


if __name__ == "__main__":
    fill(sys.argv[1], int(sys.argv[2]))
