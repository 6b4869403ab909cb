-- Runs of the model that have a tier or a price of their own, as JSON; null if the tokens cost as much as those of one run.
alter table charges add column runs text;
