"""Run by alembic: the migrations on the connection that `Database.migrate` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=False)
context.run_migrations()
