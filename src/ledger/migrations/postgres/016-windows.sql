-- The row of a window has all its sums. Proxies no longer hold shares of windows (leases): their spent and held amounts return to the
-- windows, and what was granted to them and not used becomes available.

-- `windows` was a view. Roles that may read it, such as Grafana's, may read the table.
do $$
declare
  reader text;
begin
  for reader in
    select case grantee when 0 then 'public' else grantee::regrole::text end
    from pg_class cross join aclexplode(relacl) where pg_class.oid = 'windows'::regclass and privilege_type = 'SELECT'
  loop
    execute 'grant select on budget_windows to ' || reader;
  end loop;
end
$$;
drop view windows;
update budget_windows w set spent = w.spent + l.spent, held = w.held + l.held
from (select win, sum(spent) as spent, sum(held) as held from window_leases group by win) l where l.win = w.seq;
drop table window_leases;
alter table charges drop column leased;
alter table budget_windows drop column leased;
alter table budget_windows rename to windows;
alter sequence budget_windows_seq_seq rename to windows_seq_seq;
