-- PostgreSQL replaces a function here; SQLite has none.
SELECT 1;
