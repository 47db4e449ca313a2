-- forget_floors: delete the floors that nobody reads any more, and epochs in which nothing is left.
--
-- from_generation  bigint  look at no older ones: those deleted before are in the way there
--
-- Returns `epoch` of each epoch that is kept no more.
WITH place AS MATERIALIZED (
    SELECT oldest.last_value AS oldest,
        floors.last_value AS floors
    FROM jobs_epoch_low AS oldest,
        jobs_floors AS floors
),
forgotten AS (
    DELETE FROM claim_floors
    USING place
    WHERE claim_floors.generation >= %(from_generation)s::bigint
        AND claim_floors.generation < place.floors
)
DELETE FROM kept_epochs
USING place
WHERE kept_epochs.epoch < place.oldest
    AND NOT EXISTS (
        SELECT FROM claim_floors
        WHERE claim_floors.generation = place.floors
            AND claim_floors.epoch = kept_epochs.epoch
    )
RETURNING kept_epochs.epoch
