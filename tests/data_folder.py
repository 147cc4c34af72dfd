"""Where the real data is: the folder that INDUBIO_DATA names. It never comes with the project."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with odds/, zema/, strath/ and skab/; a test that needs it is skipped where there is none."""
    named = os.environ.get("INDUBIO_DATA")
    if not named:
        pytest.skip("INDUBIO_DATA does not name a folder with the real data")
    if not Path(named).is_dir():
        pytest.skip(f"INDUBIO_DATA names a folder that does not exist: {named}")
    return Path(named)
