-- PostgreSQL replaces an index here; the index of SQLite stays.
SELECT 1;
