-- Version 2: large contents may be in a bucket, and messages in Redis. A blob has its size; the bytes of one whose
-- `data` is NULL are in the bucket.

ALTER TABLE blobs ADD COLUMN size bigint;
UPDATE blobs SET size = octet_length(data);
ALTER TABLE blobs ALTER COLUMN size SET NOT NULL, ALTER COLUMN data DROP NOT NULL;
CREATE INDEX blobs_in_bucket ON blobs (cid) WHERE data IS NULL;

-- Objects of the bucket that may be deleted after `until`: those of deleted blobs, and those that a writer began to write.
CREATE TABLE bucket_garbage (
    cid text COLLATE "C" PRIMARY KEY,
    until double precision NOT NULL
);

-- A name of this store for services that several stores may use, such as Redis.
CREATE TABLE store_id (id uuid NOT NULL);
INSERT INTO store_id VALUES (gen_random_uuid());

-- Delete blobs under the lock of names, unless a name has moved since the move `newest`.
CREATE OR REPLACE FUNCTION collect_blobs(unneeded text[], before double precision, newest bigint)
RETURNS TABLE (many bigint, size bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM take_lock('names');
    IF newest <> coalesce((SELECT max(m.seq) FROM moves m), 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'PB001', MESSAGE = 'a name';
    END IF;
    RETURN QUERY
        WITH gone AS (
            DELETE FROM blobs b WHERE b.cid = ANY (unneeded) AND b.at < before
            RETURNING b.cid, b.size AS length, b.data IS NULL AS is_in_bucket
        ), garbage AS (
            INSERT INTO bucket_garbage AS g SELECT gone.cid, store_time() FROM gone WHERE is_in_bucket
                ON CONFLICT (cid) DO UPDATE SET until = greatest(g.until, excluded.until)
        )
        SELECT count(*), coalesce(sum(length), 0)::bigint FROM gone;
END
$$;

-- Note that a blob is in the bucket, after its object was written. False when the object may have been deleted
-- meanwhile: the writer's mark in `bucket_garbage` is gone, and no other writer has noted the blob.
CREATE FUNCTION keep_large(name text, moment double precision, length bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM bucket_garbage WHERE cid = name;
    IF FOUND THEN
        INSERT INTO blobs (cid, at, size, data) VALUES (name, moment, length, NULL)
            ON CONFLICT (cid) DO UPDATE SET at = greatest(blobs.at, excluded.at), data = NULL;
        RETURN true;
    END IF;
    UPDATE blobs SET at = greatest(at, moment) WHERE cid = name;
    RETURN FOUND;
END
$$;
