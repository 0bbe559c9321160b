-- Since when the name of a device is free for others; set by an administrator, until the device enrols again.
ALTER TABLE devices ADD COLUMN released_at INTEGER;
