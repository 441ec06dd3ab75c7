-- On PostgreSQL this migration replaces an index; SQLite keeps its index.
SELECT 1;
