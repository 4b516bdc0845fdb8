-- Version 3: jobs. Their tables are those of Procrastinate; `newest` is the last of its migrations that was applied.

CREATE TABLE jobs_schema (newest text NOT NULL);
