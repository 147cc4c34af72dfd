"""Every change of the tables, one file each, in `versions`; run by `Database.migrate`."""
