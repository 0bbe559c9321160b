-- Where a session ends is known from the log; a second note of it would be written with every batch.
ALTER TABLE sessions DROP COLUMN head;
