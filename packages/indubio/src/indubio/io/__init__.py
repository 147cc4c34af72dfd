"""Bytes in and out: files, folders and addresses as tables, and results as files that are whole or not there."""
