-- declare_breakers: write down the breakers that the code declares, and their jobs.
--
-- names           text[]      ascending, so that nobody who waits holds what another waits for
-- job_lists       jsonb[]     of the same length, as all that follow: a list of names each
-- failure_ratios  float8[]
-- minimums        int[]
-- periods         interval[]
-- cooldowns       interval[]
-- probes          int[]
--
-- The state of a breaker that is there already is left alone. Rows that say the same are not written.
--
-- Returns nothing.
-- Locks   the breakers' rows that change, waiting, until commit.
INSERT INTO breakers (name, job_names, failure_ratio, minimum, period, cooldown, probes)
SELECT given.name,
    ARRAY(SELECT jsonb_array_elements_text(given.job_names)),
    given.failure_ratio,
    given.minimum,
    given.period,
    given.cooldown,
    given.probes
FROM unnest(
    %(names)s::text[],
    %(job_lists)s::jsonb[],
    %(failure_ratios)s::float8[],
    %(minimums)s::integer[],
    %(periods)s::interval[],
    %(cooldowns)s::interval[],
    %(probes)s::integer[]
) AS given (name, job_names, failure_ratio, minimum, period, cooldown, probes)
ORDER BY given.name
ON CONFLICT (name) DO UPDATE
SET job_names = excluded.job_names,
    failure_ratio = excluded.failure_ratio,
    minimum = excluded.minimum,
    period = excluded.period,
    cooldown = excluded.cooldown,
    probes = excluded.probes
WHERE (
        breakers.job_names,
        breakers.failure_ratio,
        breakers.minimum,
        breakers.period,
        breakers.cooldown,
        breakers.probes
    ) IS DISTINCT FROM (
        excluded.job_names,
        excluded.failure_ratio,
        excluded.minimum,
        excluded.period,
        excluded.cooldown,
        excluded.probes
    )
