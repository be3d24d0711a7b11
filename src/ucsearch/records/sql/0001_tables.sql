-- The audit log in PostgreSQL: append-only, bodies as text so that their bytes stay.
CREATE TABLE entries (
  seq bigint NOT NULL PRIMARY KEY CHECK (seq > 0),
  id text NOT NULL,
  digest text NOT NULL,
  head text NOT NULL UNIQUE,
  written_at text,
  body text NOT NULL,
  kind text,
  outcome text,
  reason text,
  series text,
  overrides text,
  decision text,
  plan text,
  request_key text,
  request_item bigint
);
CREATE TABLE blobs (
  id text NOT NULL PRIMARY KEY,
  data bytea NOT NULL
);
CREATE INDEX entries_id ON entries (id);
CREATE INDEX entries_outcome ON entries (outcome, seq);
CREATE INDEX entries_reason ON entries (reason, seq);
CREATE INDEX entries_series ON entries (series, seq);
CREATE INDEX entries_plan ON entries (plan, seq) WHERE plan IS NOT NULL;
CREATE INDEX entries_overrides ON entries (overrides) WHERE overrides IS NOT NULL;
CREATE INDEX entries_decision ON entries (decision) WHERE decision IS NOT NULL;
CREATE INDEX entries_rare ON entries (kind, plan) WHERE kind NOT IN ('decision', 'refusal', 'outcome');
CREATE UNIQUE INDEX entries_request ON entries (request_key, request_item) WHERE request_key IS NOT NULL;
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the log is append-only';
END $$;
CREATE TRIGGER entries_change BEFORE UPDATE OR DELETE ON entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER entries_truncate BEFORE TRUNCATE ON entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER blobs_change BEFORE UPDATE OR DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER blobs_truncate BEFORE TRUNCATE ON blobs FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
