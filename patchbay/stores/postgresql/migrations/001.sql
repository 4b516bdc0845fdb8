-- The schema of version 1. Later versions only add, so that hubs of two versions can use one database.

-- The time of the store: Unix time in seconds, UTC. Every stored time comes from here.
CREATE FUNCTION store_time() RETURNS double precision
    LANGUAGE sql VOLATILE AS 'SELECT extract(epoch FROM clock_timestamp())::double precision';

-- A lock until the end of the transaction. Two hubs in two schemas of one database do not wait for each other.
CREATE FUNCTION take_lock(purpose text) RETURNS void
    LANGUAGE sql VOLATILE AS
    'SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ''/'' || purpose, 0))';

CREATE TABLE blobs (
    cid text COLLATE "C" PRIMARY KEY,
    at double precision NOT NULL,
    data bytea NOT NULL
);
ALTER TABLE blobs ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX blobs_by_time ON blobs (at);

CREATE TABLE moves (
    seq bigint PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    cid text COLLATE "C",
    at double precision NOT NULL,
    who text NOT NULL,
    why text NOT NULL,
    write uuid NOT NULL
);
CREATE INDEX moves_by_name ON moves (name, seq);

CREATE TABLE names (
    name text COLLATE "C" PRIMARY KEY,
    cid text COLLATE "C" NOT NULL,
    seq bigint NOT NULL REFERENCES moves (seq)
);

CREATE TABLE journal (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    at double precision NOT NULL,
    until double precision,
    write uuid NOT NULL
);
CREATE INDEX journal_by_topic ON journal (topic, seq);
CREATE INDEX journal_by_end ON journal (until) WHERE until IS NOT NULL;

-- The sequence of messages is of its own, because that of an unlogged table begins again after a crash.
CREATE SEQUENCE message_seqs AS bigint;
CREATE UNLOGGED TABLE messages (
    seq bigint PRIMARY KEY DEFAULT nextval('message_seqs'),
    process text NOT NULL,
    topic text NOT NULL,
    message bytea NOT NULL,
    at double precision NOT NULL DEFAULT store_time()
);
CREATE INDEX messages_by_time ON messages (at);

CREATE SEQUENCE order_tokens AS bigint;

-- Append entries under one lock for each topic, taken in one order. A repeat of a write whose answer was lost finds its
-- own rows, which are younger than `after`, and answers their seqs.
CREATE FUNCTION append_entries(
    id uuid, after bigint, topics text[], contents bytea[], keeps double precision[], last_topics text[], last_seqs bigint[]
) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    answer bigint[];
    one text;
    moment double precision;
    added bigint;
BEGIN
    FOR one IN SELECT DISTINCT t COLLATE "C" FROM unnest(topics || last_topics) AS t ORDER BY 1 LOOP
        PERFORM take_lock('journal/' || one);
    END LOOP;
    SELECT array_agg(seq ORDER BY seq) INTO answer FROM journal
        WHERE topic = ANY (topics) AND seq > after AND write = id;
    IF answer IS NOT NULL THEN
        RETURN answer;
    END IF;
    FOR place IN 1 .. cardinality(last_topics) LOOP
        IF last_seqs[place] <> coalesce((SELECT max(seq) FROM journal WHERE topic = last_topics[place]), 0) THEN
            RAISE EXCEPTION USING ERRCODE = 'PB001', MESSAGE = last_topics[place];
        END IF;
    END LOOP;
    moment := store_time();
    answer := '{}';
    FOR place IN 1 .. cardinality(topics) LOOP
        INSERT INTO journal (topic, data, at, until, write)
            VALUES (topics[place], contents[place], moment, moment + keeps[place], id) RETURNING seq INTO added;
        answer := answer || added;
    END LOOP;
    RETURN answer;
END
$$;

-- Point names to CIDs under the one lock of names and collections; answer the newest seq, which is taken inside.
CREATE FUNCTION move_names(
    id uuid, after bigint, wanted text[], cids text[], needed text[], expected text[], expected_cids text[],
    who text, why text
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    newest bigint;
    absent text;
    moment double precision;
BEGIN
    PERFORM take_lock('names');
    SELECT max(seq) INTO newest FROM moves WHERE seq > after AND write = id;
    IF newest IS NOT NULL THEN
        RETURN newest;
    END IF;
    FOR place IN 1 .. cardinality(expected) LOOP
        IF expected_cids[place] IS DISTINCT FROM (SELECT n.cid FROM names n WHERE n.name = expected[place]) THEN
            RAISE EXCEPTION USING ERRCODE = 'PB001', MESSAGE = expected[place];
        END IF;
    END LOOP;
    SELECT string_agg(c, ' ' ORDER BY place) INTO absent FROM unnest(needed) WITH ORDINALITY AS u (c, place)
        WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.cid = c);
    IF absent IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PB002', MESSAGE = absent;
    END IF;
    moment := store_time();
    SELECT coalesce(max(seq), 0) INTO newest FROM moves;
    FOR place IN 1 .. cardinality(wanted) LOOP
        CONTINUE WHEN cids[place] IS NOT DISTINCT FROM (SELECT n.cid FROM names n WHERE n.name = wanted[place]);
        newest := newest + 1;
        INSERT INTO moves VALUES (newest, wanted[place], cids[place], moment, who, why, id);
        IF cids[place] IS NULL THEN
            DELETE FROM names n WHERE n.name = wanted[place];
        ELSE
            INSERT INTO names VALUES (wanted[place], cids[place], newest)
                ON CONFLICT (name) DO UPDATE SET cid = excluded.cid, seq = excluded.seq;
        END IF;
    END LOOP;
    RETURN newest;
END
$$;

-- Delete blobs under the lock of names, unless a name has moved since the move `newest`.
CREATE FUNCTION collect_blobs(unneeded text[], before double precision, newest bigint)
RETURNS TABLE (many bigint, size bigint) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM take_lock('names');
    IF newest <> coalesce((SELECT max(m.seq) FROM moves m), 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'PB001', MESSAGE = 'a name';
    END IF;
    RETURN QUERY
        WITH gone AS (
            DELETE FROM blobs b WHERE b.cid = ANY (unneeded) AND b.at < before RETURNING octet_length(b.data) AS length
        )
        SELECT count(*), coalesce(sum(length), 0)::bigint FROM gone;
END
$$;
