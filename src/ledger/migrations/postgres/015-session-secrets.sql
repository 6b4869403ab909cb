-- Digest of the key's secret that began a session; the session lives while this secret opens the key. '' if it is unknown, so the
-- session is over: an older session of a rotated key may have been begun with any of its secrets.
alter table run_sessions add column secret text collate "C" not null default '';
update run_sessions set secret = coalesce((select digest from keys where keys.id = run_sessions.key and rotated_at is null), '');
