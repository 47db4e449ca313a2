-- find_schema: the schema that one of our tables is in.
--
-- table_name  regclass
--
-- Returns `schema_name`.
SELECT pg_namespace.nspname AS schema_name
FROM pg_class
JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_class.oid = %(table_name)s::regclass
