-- On PostgreSQL this migration replaces a function.
SELECT 1;
