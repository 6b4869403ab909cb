import { describe, expect, it } from "vitest";
import { isPostgresUrl, parsePostgresUrl, shownPostgres, type PostgresServer } from "../../../src/core/postgres-url.ts";

const plain: PostgresServer = {
  host: "db.example",
  port: 5432,
  user: "farebox",
  password: "secret",
  database: "ledger",
  tls: "verified",
  authorityFile: null,
  certificateFile: null,
  keyFile: null,
  options: null,
};
const example = "postgres://farebox:PASSWORD@db.example/farebox";
const malformed = `must be an address such as ${example}; in a password, write @ : / ? # and % as %40 %3A %2F %3F %23 and %25`;

describe("the address of a database", () => {
  it.each<[string, Partial<PostgresServer>]>([
    ["postgres://farebox:secret@db.example/ledger", {}],
    ["postgresql://farebox:secret@db.example/ledger", {}],
    ["POSTGRES://farebox:secret@db.example/ledger", {}],
    ["postgres://farebox:secret@db.example:5433/ledger", { port: 5433 }],
    ["postgres://farebox@db.example/ledger", { password: null }],
    ["postgres://farebox:@db.example/ledger", { password: null }],
    [
      "postgres://fare%40box:a%2Fb%25@db.example/led%20ger",
      { user: "fare@box", password: "a/b%", database: "led ger" },
    ],
    ["postgres://farebox:secret@localhost/ledger", { host: "localhost", tls: "none" }],
    ["postgres://farebox:secret@LocalHost./ledger", { host: "LocalHost.", tls: "none" }],
    ["postgres://farebox:secret@db.localhost/ledger", { host: "db.localhost", tls: "none" }],
    ["postgres://farebox:secret@1localhost/ledger", { host: "1localhost" }],
    ["postgres://farebox:secret@127.0.0.1/ledger", { host: "127.0.0.1", tls: "none" }],
    ["postgres://farebox:secret@[::1]:5433/ledger", { host: "::1", port: 5433, tls: "none" }],
    ["postgres://farebox:secret@[::ffff:127.0.0.1]/ledger", { host: "::ffff:7f00:1", tls: "none" }],
    ["postgres://farebox:secret@10.0.0.1/ledger", { host: "10.0.0.1" }],
    ["postgres://farebox:secret@%2Fvar%2Frun/ledger", { host: "/var/run", tls: "none" }],
    ["postgres://farebox:secret@db.example/ledger?host=/var/run", { host: "/var/run", tls: "none" }],
    ["postgres://farebox:secret@db.example/ledger?sslmode=disable", { tls: "none" }],
    ["postgres://farebox:secret@db.example/ledger?sslmode=no-verify", { tls: "unverified" }],
    ["postgres://farebox:secret@db.example/ledger?sslmode=verify-ca", { tls: "authority" }],
    ["postgres://farebox:secret@localhost/ledger?sslmode=require", { host: "localhost", tls: "verified" }],
    ["postgres://farebox:secret@localhost/ledger?sslmode=verify-full", { host: "localhost", tls: "verified" }],
    [
      "postgres://farebox:secret@db.example/ledger?sslrootcert=/ca.pem&sslcert=/c.pem&sslkey=/k.pem&options=-c%20search_path%3Dfarebox",
      {
        authorityFile: "/ca.pem",
        certificateFile: "/c.pem",
        keyFile: "/k.pem",
        options: "-c search_path=farebox",
      },
    ],
    ["postgres://farebox:secret@db.example/ledger?sslrootcert=&sslcert=&sslkey=&options=", {}],
  ])("%s is read", (text, changes) => {
    expect(isPostgresUrl(text)).toBe(true);
    expect(parsePostgresUrl(text)).toEqual({ ok: true, server: { ...plain, ...changes } });
  });

  it.each<[string, string]>([
    ["ledger.db", malformed],
    ["", malformed],
    ["mysql://farebox@db.example/ledger", malformed],
    ["1postgres://farebox@db.example/ledger", malformed],
    ["postgres:farebox", malformed],
    ["postgres:/farebox/x", malformed],
    ["postgres:postgres://farebox@db.example/ledger", malformed],
    ["postgres://farebox:a#b@db.example/ledger", malformed],
    ["postgres://farebox@db.example/ledger#part", malformed],
    ["postgres://farebox@db.example:port/ledger", malformed],
    [
      "postgres://farebox@db.example/ledger?ssl=true",
      "must use only the parameters sslmode, sslrootcert, sslcert, sslkey, options, host",
    ],
    [
      "postgres://farebox@db.example/ledger?sslmode=require&x=1",
      "must use only the parameters sslmode, sslrootcert, sslcert, sslkey, options, host",
    ],
    [
      "postgres://farebox:100%@db.example/ledger",
      "must have two hexadecimal digits after each %; write % itself as %25",
    ],
    ["postgres:///ledger", `must name the server's host, such as ${example}`],
    ["postgres://farebox@db.example/ledger?host=", `must name the server's host, such as ${example}`],
    ["postgres://farebox@db.example/ledger?host=a,b", "must name only one host"],
    ["postgres://db.example/ledger", `must name the role to log in as, such as ${example}`],
    ["postgres://farebox@db.example", `must name one database after the host, such as ${example}`],
    ["postgres://farebox@db.example/", `must name one database after the host, such as ${example}`],
    ["postgres://farebox@db.example/a/b", `must name one database after the host, such as ${example}`],
    [
      "postgres://farebox@db.example/ledger?sslmode=allow",
      "must set sslmode to one of disable, no-verify, verify-ca, require, verify-full",
    ],
  ])("%s is rejected: it %s", (text, problem) => {
    expect(parsePostgresUrl(text)).toEqual({ ok: false, problem });
  });

  it.each(["postgres", "postgres1://a", "sqlite:ledger.db", " postgres://a"])("is not recognized in %j", (text) => {
    expect(isPostgresUrl(text)).toBe(false);
  });
});

it.each<[Partial<PostgresServer>, string]>([
  [{}, "postgres://farebox@db.example/ledger"],
  [{ port: 5433 }, "postgres://farebox@db.example:5433/ledger"],
  [{ host: "::1" }, "postgres://farebox@[::1]/ledger"],
  [{ host: "/var/run" }, "postgres://farebox@%2Fvar%2Frun/ledger"],
  [{ host: "a/b" }, "postgres://farebox@a/b/ledger"],
  [{ user: "a@b", database: "c d" }, "postgres://a%40b@db.example/c%20d"],
])("%j is shown without its secrets", (changes, shown) => {
  expect(shownPostgres({ ...plain, options: "-c secret", ...changes })).toBe(shown);
});
