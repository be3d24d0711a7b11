-- A role for services that owns nothing: it can add and look, not change or drop.
DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'ucsearch_writer') THEN
    CREATE ROLE ucsearch_writer NOLOGIN;
  END IF;
  GRANT USAGE ON SCHEMA ucsearch TO ucsearch_writer;
  GRANT SELECT, INSERT ON entries, blobs TO ucsearch_writer;
  GRANT SELECT ON format TO ucsearch_writer;
EXCEPTION WHEN insufficient_privilege OR unique_violation OR duplicate_object THEN
  RAISE NOTICE 'the role ucsearch_writer is left to the administrator';
END $$;
