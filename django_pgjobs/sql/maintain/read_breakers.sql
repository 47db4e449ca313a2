-- read_breakers: how each breaker stands, and what became of its jobs of late.
--
-- now  timestamptz  null for the server's clock; only tests pass a value
--
-- Outcomes count from the last change of its state on, and no longer than its period.
--
-- Returns for each breaker `name`, `state`, `reason`, `job_names`, `is_due` (it is open, and its time for probes has come),
-- `failure_ratio`, `minimum`, `period`, `cooldown`, `probes`, `successes` and `failures`.
SELECT breakers.name,
    breakers.state,
    breakers.reason,
    breakers.job_names,
    coalesce(breakers.retry_at <= coalesce(%(now)s::timestamptz, clock_timestamp()), false) AS is_due,
    breakers.failure_ratio,
    breakers.minimum,
    breakers.period,
    breakers.cooldown,
    breakers.probes,
    counted.successes,
    counted.failures
FROM breakers
CROSS JOIN LATERAL (
    SELECT coalesce(sum(outcome_counts.successes), 0)::integer AS successes,
        coalesce(sum(outcome_counts.failures), 0)::integer AS failures
    FROM outcome_counts
    WHERE outcome_counts.subject = 'breaker ' || breakers.name
        AND outcome_counts.counted_at > greatest(
            breakers.changed_at,
            coalesce(%(now)s::timestamptz, clock_timestamp()) - breakers.period
        )
) AS counted
ORDER BY breakers.name
