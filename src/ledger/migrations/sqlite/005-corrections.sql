-- Who made a correction: the operating system's user that ran `charges adjust`. When is `ended_at`, why is `reason`.
alter table charges add column adjusted_by text;
