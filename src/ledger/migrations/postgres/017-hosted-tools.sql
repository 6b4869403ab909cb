-- Policy for hosted tools that nothing bounds; null if a key inherits it from its team, or a team from the settings.
alter table keys add column hosted_tools text check (hosted_tools in ('refuse', 'remove', 'allow'));
alter table teams add column hosted_tools text check (hosted_tools in ('refuse', 'remove', 'allow'));
