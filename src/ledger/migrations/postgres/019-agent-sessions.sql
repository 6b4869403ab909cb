-- Charges of the sessions of agents, by session and by time. The expressions are those of `Dialect.agentTag`.
create index charges_of_agent_session on charges ((cast(tags as json) ->> 'agent_session' collate "C"), admitted_at)
  where (cast(tags as json) ->> 'agent_session' collate "C") is not null;
create index charges_of_agents on charges (admitted_at)
  where (cast(tags as json) ->> 'agent_session' collate "C") is not null;
