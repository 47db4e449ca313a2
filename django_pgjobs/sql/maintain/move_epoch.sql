-- move_epoch: begin a new epoch of pending rows.
--
-- From now on new pending rows take it; claims look at the old one too, until nothing is
-- left there, or what is left is kept, and raise_epoch_low is run. setval, because nextval logs
-- ahead and would jump after a crash.
--
-- Returns the new `epoch`.
SELECT setval('jobs_epoch', jobs_epoch.last_value + 1) AS epoch
FROM jobs_epoch
