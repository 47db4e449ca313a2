-- 0001_initial, backwards: drops every table of django-pgjobs, with its rows.

DROP TABLE maintenance_leader;
DROP TABLE job_workers;
DROP TABLE outcome_counts;
DROP TABLE breakers;
DROP TABLE cron_runs;
DROP TABLE cron_schedules;
DROP TABLE tenant_config;
DROP TABLE queue_config;
DROP TABLE job_attempts;
DROP TABLE jobs_completed;
DROP TABLE claim_floors;
DROP TABLE kept_epochs;
DROP TABLE jobs_active;
DROP SEQUENCE jobs_waiting_floor;
DROP SEQUENCE jobs_floors;
DROP SEQUENCE jobs_running_epoch_low;
DROP SEQUENCE jobs_running_epoch;
DROP SEQUENCE jobs_epoch_low;
DROP SEQUENCE jobs_epoch;
DROP SEQUENCE jobs_fence;
DROP SEQUENCE jobs_id;
DROP TYPE job_status;
