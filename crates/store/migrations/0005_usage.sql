-- What each principal has stored: its sessions, and the bytes of their batches in the log.
CREATE TABLE usage (
    principal TEXT PRIMARY KEY,
    sessions  INTEGER NOT NULL,
    bytes     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO usage (principal, sessions, bytes)
SELECT sessions.owner, count(*), coalesce(sum(stored.bytes), 0)
FROM sessions
LEFT JOIN (SELECT stream, sum(length(events)) AS bytes FROM log GROUP BY stream) AS stored
    ON stored.stream = sessions.stream
GROUP BY sessions.owner;
