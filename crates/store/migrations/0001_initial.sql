-- The log and its projections.
--
-- `streams` and `log` are the truth; `snapshots` only save time; all other tables are derived from
-- the log and can be rebuilt. Times are microseconds since the Unix epoch.

-- One row per session: a short number for each identifier.
CREATE TABLE streams (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL UNIQUE
) STRICT;

-- One row per batch, in the order in which they were committed.
CREATE TABLE log (
    id        INTEGER PRIMARY KEY,
    stream    INTEGER NOT NULL,
    epoch     INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    last_seq  INTEGER NOT NULL,
    events    BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX log_by_stream ON log (stream, last_seq);

-- The last snapshot of each session.
CREATE TABLE snapshots (
    stream INTEGER PRIMARY KEY,
    seq    INTEGER NOT NULL,
    state  BLOB NOT NULL
) STRICT;

CREATE TABLE sessions (
    stream     INTEGER PRIMARY KEY,
    session    TEXT NOT NULL,
    owner      TEXT NOT NULL,
    agent      TEXT NOT NULL,
    name       TEXT,
    epoch      INTEGER NOT NULL,
    head       INTEGER NOT NULL,
    opened_at  INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    turns      INTEGER NOT NULL,
    live       INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_activity ON sessions (updated_at, session);
CREATE INDEX sessions_by_owner ON sessions (owner, updated_at, session);
CREATE INDEX sessions_live ON sessions (stream) WHERE live = 1;

CREATE TABLE turns (
    stream      INTEGER NOT NULL,
    accepted    INTEGER NOT NULL,
    turn        TEXT NOT NULL,
    agent       TEXT NOT NULL,
    principal   TEXT NOT NULL,
    protocol    TEXT NOT NULL,
    status      TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    started_at  INTEGER,
    ended       INTEGER,
    ended_at    INTEGER,
    PRIMARY KEY (stream, accepted)
) STRICT, WITHOUT ROWID;

CREATE TABLE messages (
    id       INTEGER PRIMARY KEY,
    stream   INTEGER NOT NULL,
    message  TEXT NOT NULL,
    parent   TEXT,
    turn     TEXT NOT NULL,
    author   BLOB NOT NULL,
    parts    BLOB NOT NULL,
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    complete INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_by_stream ON messages (stream, message);

CREATE TABLE requests (
    id        INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    key       TEXT NOT NULL,
    digest    TEXT NOT NULL,
    session   TEXT NOT NULL,
    turn      TEXT NOT NULL,
    epoch     INTEGER NOT NULL,
    accepted  INTEGER NOT NULL,
    at        INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX requests_by_key ON requests (principal, key);
CREATE INDEX requests_by_age ON requests (at);
