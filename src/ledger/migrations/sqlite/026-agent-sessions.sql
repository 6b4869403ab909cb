-- Charges of the sessions of agents, by session and by time. The expressions are those of `Dialect.agentTag`.
create index charges_of_agent_session on charges ((tags ->> '$."agent_session"'), admitted_at)
  where (tags ->> '$."agent_session"') is not null;
create index charges_of_agents on charges (admitted_at, key, (tags ->> '$."agent_session"'))
  where (tags ->> '$."agent_session"') is not null;
