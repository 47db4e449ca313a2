-- move_running_epoch: begin a new epoch of running rows.
--
-- From now on claims give it to what they start, and count in the old one too, until nothing is
-- left there and raise_running_epoch_low is run. setval: see move_epoch.
--
-- Returns the new `epoch`.
SELECT setval('jobs_running_epoch', jobs_running_epoch.last_value + 1) AS epoch
FROM jobs_running_epoch
