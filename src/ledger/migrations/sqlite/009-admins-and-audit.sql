-- Tokens of the admin API: named, of one role, stored as a digest.
create table admins (
  seq integer primary key,
  id text not null unique,
  name text not null unique,
  role text not null check (role in ('viewer', 'editor')),
  digest text not null unique,
  created_at integer not null,
  expires_at integer,
  revoked_at integer
) strict;

-- One row for each change that somebody made: who, what, and the thing before and after as JSON without secrets. Rows are
-- only ever added, in the transaction of the change.
create table audit_entries (
  id integer primary key autoincrement,
  made_at integer not null,
  made_by text not null,
  action text not null,
  object text not null,
  facts_before text check (facts_before is null or json_valid(facts_before)),
  facts_after text check (facts_after is null or json_valid(facts_after))
) strict;

create trigger audit_entries_never_change before update on audit_entries
begin
  select raise(abort, 'an entry of the audit is never changed');
end;

create trigger audit_entries_never_go before delete on audit_entries
begin
  select raise(abort, 'an entry of the audit is never deleted');
end;

-- Replacing a row deletes without the trigger above.
create trigger audit_entries_never_replaced before insert on audit_entries
when new.id in (select id from audit_entries)
begin
  select raise(abort, 'an entry of the audit is never replaced');
end;
