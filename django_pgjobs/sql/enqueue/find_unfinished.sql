-- find_unfinished: the unfinished jobs that hold some idempotency keys.
--
-- tenant_ids        bigint[]
-- job_names         text[]
-- idempotency_keys  text[]    of the same length
--
-- Returns `position` (from 1) and `id`; nothing for a key that no unfinished job holds.
-- Index   jobs_active_idempotency
SELECT wanted.position,
    jobs_active.id
FROM unnest(
    %(tenant_ids)s::bigint[],
    %(job_names)s::text[],
    %(idempotency_keys)s::text[]
) WITH ORDINALITY AS wanted (tenant_id, job_name, idempotency_key, position)
JOIN jobs_active
    ON jobs_active.tenant_id = wanted.tenant_id
    AND jobs_active.job_name = wanted.job_name
    AND jobs_active.idempotency_key = wanted.idempotency_key
