-- Time since which a key is suspended; null if it is not.
alter table keys add column suspended_at integer;

-- Labels of a key, tags and the user that all its requests have, and dimensions that its requests must name; null for none.
-- Labels and tags are JSON objects, the dimensions a JSON list.
alter table keys add column labels text;
alter table keys add column pinned_tags text;
alter table keys add column pinned_user text;
alter table keys add column requires text;
