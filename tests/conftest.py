"""What all tests share."""

import hypothesis
import torch

from tests.data_folder import data_folder
from tests.server_databases import database_url, migrated_file, postgres_server, sqlite_store, sqlite_url, store

__all__ = ["data_folder", "database_url", "migrated_file", "postgres_server", "sqlite_store", "sqlite_url", "store"]

# A busy machine is not a failing test.
hypothesis.settings.register_profile("indubio", deadline=None)
hypothesis.settings.load_profile("indubio")
# Tests run in two processes on two cores: more threads only fight each other.
torch.set_num_threads(1)
