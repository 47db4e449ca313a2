-- count_outcomes: write down what a worker saw since the last time, and hear what all of them saw.
--
-- subjects   text[]    a breaker or a job with a retry budget
-- successes  int[]     of the same length, as all that follow
-- failures   int[]     of a breaker; retries to come, of a job
-- periods    interval[]
-- worker_id  text
--
-- A row of its own for each worker and time: nobody waits for anybody.
--
-- Returns for each subject `subject`, and `successes` and `failures` of all workers in its period.
WITH given AS MATERIALIZED (
    SELECT named.subject,
        named.successes,
        named.failures,
        named.period
    FROM unnest(
        %(subjects)s::text[],
        %(successes)s::integer[],
        %(failures)s::integer[],
        %(periods)s::interval[]
    ) AS named (subject, successes, failures, period)
),
written AS (
    INSERT INTO outcome_counts (subject, counted_at, worker_id, successes, failures)
    SELECT given.subject,
        clock_timestamp(),
        %(worker_id)s::text,
        given.successes,
        given.failures
    FROM given
    WHERE given.successes + given.failures > 0
)
SELECT given.subject,
    counted.successes + given.successes AS successes,
    counted.failures + given.failures AS failures
FROM given
CROSS JOIN LATERAL (
    SELECT coalesce(sum(outcome_counts.successes), 0)::integer AS successes,
        coalesce(sum(outcome_counts.failures), 0)::integer AS failures
    FROM outcome_counts
    WHERE outcome_counts.subject = given.subject
        AND outcome_counts.counted_at > clock_timestamp() - given.period
) AS counted
