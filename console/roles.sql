-- Two roles: sayso_owner migrates and owns the tables, sayso_app is what web and worker are.
-- ./run does this by itself for the PostgreSQL it starts. For a server of your own, as its superuser:
--   psql -f console/roles.sql
--   psql -c '\password sayso_owner' -c '\password sayso_app' -c 'CREATE DATABASE sayso OWNER sayso_owner'
-- then DATABASE_URL names sayso_app and DATABASE_OWNER_URL names sayso_owner.
-- It may be run again.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sayso_owner') THEN CREATE ROLE sayso_owner; END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sayso_app') THEN CREATE ROLE sayso_app; END IF;
END $$;
-- CREATEDB is for the tests' databases only.
ALTER ROLE sayso_owner LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE CREATEDB;
ALTER ROLE sayso_app LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEROLE NOCREATEDB;
-- The owner may end the app's connections, never the other way round.
GRANT sayso_app TO sayso_owner;
GRANT pg_read_all_stats TO sayso_owner;
-- R38: the tenant-wide feed stops at the oldest open transaction, so none stays open idle.
ALTER ROLE sayso_owner SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE sayso_app SET idle_in_transaction_session_timeout = '10s';
ALTER ROLE sayso_app SET lock_timeout = '5s';
ALTER ROLE sayso_app SET statement_timeout = '30s';
-- Over TCP: a client that fell silent without a goodbye leaves its locks after some 25 s, and not after hours.
ALTER ROLE sayso_app SET tcp_keepalives_idle = '10s';
ALTER ROLE sayso_app SET tcp_keepalives_interval = '5s';
ALTER ROLE sayso_app SET tcp_keepalives_count = 3;
ALTER ROLE sayso_app SET tcp_user_timeout = '25s';
