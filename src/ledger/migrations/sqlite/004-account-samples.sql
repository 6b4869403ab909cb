-- The gateway's account record at an instant, beside the ledger's counters before it was asked for and after it came. What
-- is in a column of JSON is read whole or not at all: figures as the gateway wrote them, and counters with amounts in
-- pico-USD as text.
create table account_samples (
  asked_at integer primary key,
  answered_at integer not null,
  account text,
  figures text not null check (json_valid(figures)),
  ledger_before text not null check (json_valid(ledger_before)),
  ledger_after text not null check (json_valid(ledger_after))
) strict;
