-- Sessions of browsers that are signed in to the dashboard. Digests are SHA-256, hexadecimal. `holder` is the id of the admin
-- or the key; '' for FAREBOX_ADMIN_TOKEN. `secret` is the digest of the token or key that began the session.
create table dashboard_sessions (
  seq integer primary key,
  digest text not null unique,
  kind text not null,
  holder text not null,
  secret text not null,
  created_at integer not null,
  expires_at integer not null
) strict;
create index dashboard_sessions_of_secret on dashboard_sessions (secret);
