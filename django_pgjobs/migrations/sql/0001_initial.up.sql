-- 0001_initial: the tables of django-pgjobs.
--
-- A job is one row of jobs_active from the moment its enqueue transaction
-- commits until it has reached a final status. Then the same statement that
-- deletes it from jobs_active inserts it into jobs_completed, so that a job is
-- always in exactly one of the two.
--
--     scheduled ─┐                 ┌─> completed
--     failed ────┼─> pending ─> running ─> dead         (jobs_completed)
--     retryable ─┘      ^          │ └─> cancelled
--     blocked ──────────┘          └─> failed, retryable (back to waiting)
--
-- Who writes what: producers insert into jobs_active; a claim makes pending
-- rows running; only the owner of an attempt (id, fence_token, locked_by and
-- status = 'running') or the reaper may end it; maintenance stages waiting rows
-- whose time has come. Whoever ends an attempt without success writes its row of
-- job_attempts in the same statement; the row of jobs_completed is the record of
-- an attempt that succeeded.
--
-- Names are not qualified: the tables go to the first schema of the search_path.
-- Locks: creates only, none on existing tables.

CREATE TYPE job_status AS ENUM (
    'scheduled',  -- waiting: its time has not come
    'failed',     -- waiting: the last attempt failed, backing off
    'retryable',  -- waiting: given back by its worker, no attempt spent
    'blocked',    -- waiting: for another job, a group or a slot
    'pending',    -- may be claimed now
    'running',    -- owned by a worker under a lease
    'completed',  -- final: succeeded
    'dead',       -- final: will not run again by itself
    'cancelled'   -- final: ended on request, or expired
);

-- One sequence of ids for jobs_active and jobs_completed: an id is never reused.
CREATE SEQUENCE jobs_id AS bigint NO CYCLE CACHE 1;

-- High bits of every fence token. CACHE 1: a cached sequence is not monotonic
-- between sessions.
CREATE SEQUENCE jobs_fence AS bigint NO CYCLE CACHE 1;

-- The epochs of pending rows, the first column of the claim index. Claims look at
-- jobs_epoch_low.last_value up to jobs_epoch.last_value, nearly always the same number, and at
-- the epochs kept. Sequences, because reading one is not subject to a snapshot and writes
-- no row version. They are moved with setval only: nextval logs ahead and would jump
-- after a crash.
CREATE SEQUENCE jobs_epoch AS bigint NO CYCLE CACHE 1;
CREATE SEQUENCE jobs_epoch_low AS bigint NO CYCLE CACHE 1;

-- The same of running rows, of which there are never many: their epochs move apart from those
-- of pending rows, however long the backlog is. Only what claims and counts running rows reads
-- them: see list_claims.
CREATE SEQUENCE jobs_running_epoch AS bigint NO CYCLE CACHE 1;
CREATE SEQUENCE jobs_running_epoch_low AS bigint NO CYCLE CACHE 1;

-- Which rows of claim_floors count.
CREATE SEQUENCE jobs_floors AS bigint NO CYCLE CACHE 1;

-- Where the stager begins to look, in microseconds since 1970; 1 while nothing holds back vacuum.
CREATE SEQUENCE jobs_waiting_floor AS bigint NO CYCLE CACHE 1;

SELECT setval('jobs_epoch', 1),
    setval('jobs_epoch_low', 1),
    setval('jobs_running_epoch', 1),
    setval('jobs_running_epoch_low', 1),
    setval('jobs_floors', 1),
    setval('jobs_waiting_floor', 1);

CREATE TABLE jobs_active (
    id                bigint      NOT NULL DEFAULT nextval('jobs_id'),
    tenant_id         bigint      NOT NULL DEFAULT 0,
    epoch             bigint      NOT NULL,
    fence_token       bigint,
    created_at        timestamptz NOT NULL,
    scheduled_at      timestamptz NOT NULL,
    expires_at        timestamptz,
    started_at        timestamptz,
    locked_at         timestamptz,
    lease_expires     timestamptz,
    status            job_status  NOT NULL,
    attempt           integer     NOT NULL DEFAULT 0,
    max_attempts      integer     NOT NULL DEFAULT 3,
    claims            integer     NOT NULL DEFAULT 0,
    generation        integer     NOT NULL DEFAULT 0,
    -- What a step of priority is worth, in milliseconds of waiting: 2^46, two thousand years,
    -- for strict order, or the queue's priority_aging.
    priority_worth    bigint      NOT NULL DEFAULT 70368744177664,
    -- The order in which a tenant's jobs are claimed: a priority is so many milliseconds of
    -- head start. Stored, so that jobs age without anything being written.
    claim_order       bigint      NOT NULL GENERATED ALWAYS AS (
        (extract(epoch FROM scheduled_at - '2020-01-01 00:00:00+00'::timestamptz) * 1000)::bigint
        - priority * priority_worth
    ) STORED,
    priority          smallint    NOT NULL DEFAULT 0,
    payload_version   smallint    NOT NULL DEFAULT 1,
    -- Processes lost with the job in flight since an attempt last ended in order.
    losses            smallint    NOT NULL DEFAULT 0,
    cancel_requested  boolean     NOT NULL DEFAULT false,
    -- Sent through a half-open breaker, to see how it fares.
    is_probe          boolean     NOT NULL DEFAULT false,
    job_name          text        NOT NULL,
    queue_name        text        NOT NULL DEFAULT 'default',
    locked_by         text,
    idempotency_key   text,
    group_key         text,
    -- The breaker that the job waits for.
    held_by           text,
    payload           jsonb       NOT NULL DEFAULT '{}',
    meta              jsonb,
    -- What the handler has said last; written with the renewal of its lease.
    progress          jsonb,

    CONSTRAINT jobs_active_pkey PRIMARY KEY (id),
    -- A final row belongs to jobs_completed.
    CONSTRAINT jobs_active_status CHECK (status < 'completed'),
    -- A lease if and only if running.
    CONSTRAINT jobs_active_lease CHECK (
        CASE WHEN status = 'running'
            THEN num_nulls(fence_token, locked_by, locked_at, lease_expires) = 0
            ELSE num_nonnulls(fence_token, locked_by, locked_at, lease_expires) = 0
        END
    ),
    -- A row that is not running has an attempt left, so a claim can always
    -- count one and no single row can fail a whole batch.
    CONSTRAINT jobs_active_attempt CHECK (
        attempt >= 0 AND attempt <= max_attempts - (status <> 'running')::integer
    ),
    CONSTRAINT jobs_active_max_attempts CHECK (max_attempts BETWEEN 1 AND 10000),
    CONSTRAINT jobs_active_priority_worth CHECK (priority_worth BETWEEN 1 AND 70368744177664),
    CONSTRAINT jobs_active_claims CHECK (claims >= attempt AND generation >= 0),
    CONSTRAINT jobs_active_cancel CHECK (NOT cancel_requested OR status = 'running'),
    CONSTRAINT jobs_active_progress CHECK (progress IS NULL OR status = 'running'),
    CONSTRAINT jobs_active_held CHECK (held_by IS NULL OR status = 'blocked'),
    CONSTRAINT jobs_active_names CHECK (
        octet_length(job_name) BETWEEN 1 AND 255
        AND octet_length(queue_name) BETWEEN 1 AND 63
        AND octet_length(idempotency_key) BETWEEN 1 AND 255
        AND octet_length(group_key) BETWEEN 1 AND 255
    )
) WITH (
    -- Room on each page for the renewal of leases, which touches no indexed
    -- column and so can stay on the page (a HOT update).
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.0,
    autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0.0,
    autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.0,
    autovacuum_analyze_threshold = 20000
);
ALTER SEQUENCE jobs_id OWNED BY NONE;

-- The claim walks this index: one epoch, one queue, tenant by tenant.
CREATE INDEX jobs_active_claim ON jobs_active
    (epoch, queue_name, tenant_id, claim_order, id)
    WHERE status = 'pending';

-- Counts of what a tenant has running, and the reaper. lease_expires is left
-- out on purpose: a renewal then updates no index.
CREATE INDEX jobs_active_running ON jobs_active
    (epoch, tenant_id, queue_name)
    WHERE locked_at IS NOT NULL;

-- The stager: which waiting job is due next.
CREATE INDEX jobs_active_waiting ON jobs_active (scheduled_at)
    WHERE status IN ('scheduled', 'failed', 'retryable');

CREATE INDEX jobs_active_expiry ON jobs_active (expires_at)
    WHERE expires_at IS NOT NULL;

-- Unique while the job is unfinished.
CREATE UNIQUE INDEX jobs_active_idempotency ON jobs_active
    (tenant_id, job_name, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

-- What a breaker holds, and what it has let through.
CREATE INDEX jobs_active_held_by ON jobs_active (held_by, id) WHERE held_by IS NOT NULL;
CREATE INDEX jobs_active_probes ON jobs_active (job_name) WHERE is_probe;

-- Epochs of pending rows below jobs_epoch_low that are not empty: a backlog too long to be
-- moved. No row is ever added to them.
CREATE TABLE kept_epochs (
    epoch  bigint  NOT NULL,

    CONSTRAINT kept_epochs_pkey PRIMARY KEY (epoch)
);

-- Where the pending rows of a kept epoch begin: a claim starts there, behind the entries of what
-- was claimed before. Never changed: each time all of them are written anew, under the next
-- generation, so that reading them costs the same however long vacuum is held back.
CREATE TABLE claim_floors (
    generation   bigint  NOT NULL,
    epoch        bigint  NOT NULL,
    tenant_id    bigint  NOT NULL,
    claim_order  bigint  NOT NULL,
    job_id       bigint  NOT NULL,
    queue_name   text    NOT NULL,

    CONSTRAINT claim_floors_pkey PRIMARY KEY (generation, epoch, queue_name, tenant_id)
);

CREATE TABLE jobs_completed (
    id                bigint      NOT NULL,
    tenant_id         bigint      NOT NULL,
    fence_token       bigint,
    created_at        timestamptz NOT NULL,
    scheduled_at      timestamptz NOT NULL,
    expires_at        timestamptz,
    started_at        timestamptz,
    locked_at         timestamptz,
    completed_at      timestamptz NOT NULL,
    status            job_status  NOT NULL,
    attempt           integer     NOT NULL,
    max_attempts      integer     NOT NULL,
    claims            integer     NOT NULL,
    generation        integer     NOT NULL,
    priority          smallint    NOT NULL,
    payload_version   smallint    NOT NULL,
    job_name          text        NOT NULL,
    queue_name        text        NOT NULL,
    locked_by         text,
    idempotency_key   text,
    group_key         text,
    error_class       text,
    error_message     text,
    fingerprint       text,
    payload           jsonb       NOT NULL,
    result            jsonb,
    meta              jsonb,

    CONSTRAINT jobs_completed_pkey PRIMARY KEY (id, completed_at),
    CONSTRAINT jobs_completed_status CHECK (status >= 'completed')
) PARTITION BY RANGE (completed_at);

-- What people filter history by; each ends in id, the order of the lists.
CREATE INDEX jobs_completed_job ON jobs_completed (job_name, id);
CREATE INDEX jobs_completed_queue ON jobs_completed (queue_name, id);
CREATE INDEX jobs_completed_tenant ON jobs_completed (tenant_id, id) WHERE tenant_id <> 0;
CREATE INDEX jobs_completed_unsuccessful ON jobs_completed (status, id) WHERE status > 'completed';
CREATE INDEX jobs_completed_fingerprint ON jobs_completed (fingerprint, id)
    WHERE fingerprint IS NOT NULL;

-- A net: a completion can never fail for want of a partition. Empty in health.
CREATE TABLE jobs_completed_default PARTITION OF jobs_completed DEFAULT;

CREATE TABLE job_attempts (
    job_id         bigint      NOT NULL,
    tenant_id      bigint      NOT NULL,
    fence_token    bigint      NOT NULL,
    started_at     timestamptz NOT NULL,
    finished_at    timestamptz NOT NULL,
    claim          integer     NOT NULL,
    generation     integer     NOT NULL,
    attempt        integer     NOT NULL,
    job_name       text        NOT NULL,
    queue_name     text        NOT NULL,
    worker_id      text        NOT NULL,
    outcome        text        NOT NULL,
    error_class    text,
    error_message  text,
    traceback      text,
    fingerprint    text,

    CONSTRAINT job_attempts_pkey PRIMARY KEY (job_id, claim, finished_at),
    CONSTRAINT job_attempts_outcome CHECK (
        outcome IN ('failed', 'timeout', 'lost', 'snoozed', 'released', 'cancelled')
    )
) PARTITION BY RANGE (finished_at);

CREATE INDEX job_attempts_fingerprint ON job_attempts (fingerprint, finished_at)
    WHERE fingerprint IS NOT NULL;

-- The reaper: who else was in flight in a lost process.
CREATE INDEX job_attempts_lost ON job_attempts (worker_id) WHERE outcome = 'lost';

CREATE TABLE job_attempts_default PARTITION OF job_attempts DEFAULT;

CREATE TABLE queue_config (
    queue_name  text        NOT NULL,
    paused      boolean     NOT NULL DEFAULT false,
    paused_at   timestamptz,
    paused_by   text        NOT NULL DEFAULT '',
    -- How long a job has to wait to count as much as a job of the next higher priority that
    -- has just come; null for strict order.
    priority_aging  interval,

    CONSTRAINT queue_config_pkey PRIMARY KEY (queue_name),
    CONSTRAINT queue_config_priority_aging CHECK (
        priority_aging BETWEEN interval '1 millisecond' AND interval '1000 years'
    ),
    CONSTRAINT queue_config_paused CHECK (paused = (paused_at IS NOT NULL))
);

CREATE TABLE tenant_config (
    tenant_id               bigint   NOT NULL,
    max_concurrent_jobs     integer,
    max_enqueue_per_minute  integer,
    quota_weight            integer  NOT NULL DEFAULT 10,
    priority_boost          smallint NOT NULL DEFAULT 0,

    CONSTRAINT tenant_config_pkey PRIMARY KEY (tenant_id),
    CONSTRAINT tenant_config_max_concurrent_jobs CHECK (max_concurrent_jobs >= 0),
    CONSTRAINT tenant_config_max_enqueue_per_minute CHECK (max_enqueue_per_minute >= 0),
    CONSTRAINT tenant_config_quota_weight CHECK (quota_weight BETWEEN 1 AND 1000),
    CONSTRAINT tenant_config_priority_boost CHECK (priority_boost BETWEEN -10 AND 10)
);

CREATE TABLE cron_schedules (
    id               bigint      GENERATED BY DEFAULT AS IDENTITY,
    name             text        NOT NULL,
    job_name         text        NOT NULL,
    cron_expression  text        NOT NULL,
    timezone         text        NOT NULL DEFAULT 'UTC',
    tenant_id        bigint      NOT NULL DEFAULT 0,
    -- Empty or null for what the job's declaration says.
    queue_name       text        NOT NULL DEFAULT '',
    priority         smallint,
    max_attempts     integer,
    payload          jsonb       NOT NULL DEFAULT '{}',
    payload_version  smallint    NOT NULL DEFAULT 1,
    -- What to do about slots that were missed, and while the last job is unfinished.
    catch_up         text        NOT NULL DEFAULT 'skip',
    catch_up_limit   integer     NOT NULL DEFAULT 100,
    overlap          text        NOT NULL DEFAULT 'allow',
    -- Its jobs start up to so much later than their slots.
    jitter           interval    NOT NULL DEFAULT '0',
    -- False while an operator pauses it.
    enabled          boolean     NOT NULL DEFAULT true,
    -- The code base that declares it; empty for one that people have made.
    owner            text        NOT NULL DEFAULT '',
    removed_at       timestamptz,
    -- Slots at or before these two never fire: when it was made, changed or resumed, and the
    -- last slot dealt with. Slots are dealt with in order, so the second alone makes each of
    -- them unique for good.
    active_since     timestamptz NOT NULL DEFAULT statement_timestamp(),
    last_slot_at     timestamptz,
    -- When to look at it; null for at once.
    next_run_at      timestamptz,
    -- A slot that waits for the last job to finish.
    queued_slot_at   timestamptz,
    last_run_at      timestamptz,
    last_job_id      bigint,
    -- Why it cannot be fired; empty in health.
    problem          text        NOT NULL DEFAULT '',
    created_at       timestamptz NOT NULL DEFAULT statement_timestamp(),

    CONSTRAINT cron_schedules_pkey PRIMARY KEY (id),
    CONSTRAINT cron_schedules_name UNIQUE (name, tenant_id),
    -- What jobs_active demands of its rows, so that no schedule makes a batch of slots fail.
    CONSTRAINT cron_schedules_names CHECK (
        octet_length(name) BETWEEN 1 AND 255
        AND octet_length(job_name) BETWEEN 1 AND 255
        AND octet_length(queue_name) <= 63
    ),
    CONSTRAINT cron_schedules_max_attempts CHECK (max_attempts BETWEEN 1 AND 10000),
    CONSTRAINT cron_schedules_catch_up CHECK (
        catch_up IN ('skip', 'catch_up', 'collapse') AND catch_up_limit BETWEEN 1 AND 1000
    ),
    -- To catch up is to let jobs of one schedule overlap.
    CONSTRAINT cron_schedules_overlap CHECK (
        overlap IN ('allow', 'skip', 'queue_one') AND (overlap = 'allow' OR catch_up <> 'catch_up')
    ),
    CONSTRAINT cron_schedules_jitter CHECK (jitter BETWEEN interval '0' AND interval '24 hours')
) WITH (fillfactor = 70);

CREATE INDEX cron_schedules_due ON cron_schedules (next_run_at)
    WHERE enabled AND removed_at IS NULL;
CREATE INDEX cron_schedules_queued ON cron_schedules (last_job_id)
    WHERE queued_slot_at IS NOT NULL;

-- What became of each slot, for as long as history is kept.
CREATE TABLE cron_runs (
    schedule_id  bigint      NOT NULL,
    -- For a run by hand, when it was asked for.
    slot_at      timestamptz NOT NULL,
    recorded_at  timestamptz NOT NULL DEFAULT statement_timestamp(),
    -- Null where the slot was skipped because a job of the schedule was unfinished.
    job_id       bigint,
    kind         text        NOT NULL DEFAULT 'slot',

    CONSTRAINT cron_runs_pkey PRIMARY KEY (schedule_id, slot_at),
    CONSTRAINT cron_runs_kind CHECK (
        kind IN ('slot', 'manual', 'skipped') AND (kind = 'skipped') = (job_id IS NULL)
    )
);

CREATE INDEX cron_runs_recorded ON cron_runs (recorded_at);

-- Circuit breakers. Workers write what the code declares, maintenance what follows from outcomes,
-- operators what they decide.
CREATE TABLE breakers (
    name           text        NOT NULL,
    job_names      text[]      NOT NULL,
    state          text        NOT NULL DEFAULT 'closed',
    reason         text        NOT NULL DEFAULT '',
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by     text        NOT NULL DEFAULT '',
    -- When an open breaker lets probes through; null: not before somebody closes it.
    retry_at       timestamptz,
    failure_ratio  float8      NOT NULL,
    minimum        integer     NOT NULL,
    period         interval    NOT NULL,
    cooldown       interval    NOT NULL,
    probes         integer     NOT NULL,

    CONSTRAINT breakers_pkey PRIMARY KEY (name),
    CONSTRAINT breakers_state CHECK (state IN ('closed', 'open', 'half_open')),
    CONSTRAINT breakers_retry_at CHECK (retry_at IS NULL OR state = 'open')
);

-- Claims read it: empty in health.
CREATE INDEX breakers_open ON breakers (name) WHERE state <> 'closed';

-- What workers saw of late, of each breaker and each job with a retry budget: worth nothing after a
-- crash.
CREATE UNLOGGED TABLE outcome_counts (
    subject    text        NOT NULL,
    counted_at timestamptz NOT NULL,
    worker_id  text        NOT NULL,
    successes  integer     NOT NULL,
    failures   integer     NOT NULL,

    CONSTRAINT outcome_counts_pkey PRIMARY KEY (subject, counted_at, worker_id)
);

-- Maintenance drops the oldest.
CREATE INDEX outcome_counts_age ON outcome_counts (counted_at);

-- Presence of worker processes: derived, so it need not survive a crash.
CREATE UNLOGGED TABLE job_workers (
    worker_id     text        NOT NULL,
    hostname      text        NOT NULL,
    pid           integer     NOT NULL,
    queues        text[]      NOT NULL,
    concurrency   integer     NOT NULL,
    running       integer     NOT NULL DEFAULT 0,
    started_at    timestamptz NOT NULL,
    heartbeat_at  timestamptz NOT NULL,
    -- The worker listens on this channel; null when it only polls.
    channel       text,
    -- For their jobs it has room and has found nothing: a producer of one wakes it through its
    -- channel.
    idle_queues   text[]      NOT NULL DEFAULT '{}',
    -- Since when it has been idle for these; null while there are none.
    idle_since    timestamptz,

    CONSTRAINT job_workers_pkey PRIMARY KEY (worker_id),
    CONSTRAINT job_workers_idle CHECK ((idle_since IS NULL) = (idle_queues = '{}'))
) WITH (fillfactor = 50);

-- Which maintenance process leads. A row and not a session lock, so that it also
-- works behind a pooler in transaction mode.
CREATE UNLOGGED TABLE maintenance_leader (
    name        text        NOT NULL,
    leader_id   text        NOT NULL,
    expires_at  timestamptz NOT NULL,

    CONSTRAINT maintenance_leader_pkey PRIMARY KEY (name)
);
