-- list_probes: the jobs that half-open breakers have let through and that have not ended.
--
-- Returns `job_name` of each.
-- Index   jobs_active_probes
SELECT jobs_active.job_name
FROM jobs_active
WHERE jobs_active.is_probe
