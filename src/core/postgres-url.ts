import { addressKind, bracketed, hostOf, isLoopbackHost } from "./addresses.ts";
import type { OrProblem } from "./fault.ts";

/**
 * Protection of the connection. `verified`: TLS with a trusted certificate for this host. `authority`: TLS with a
 * trusted certificate for any host. `unverified`: TLS without verification of the certificate.
 */
type PostgresTls = "none" | "verified" | "authority" | "unverified";

/** Address of a PostgreSQL database. The password is a secret. */
export interface PostgresServer {
  /** A name, an IP address without brackets, or the directory of a Unix socket ("/var/run/postgresql"). */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /** Null if the address states none. The driver then uses PGPASSWORD or ~/.pgpass. */
  readonly password: string | null;
  readonly database: string;
  readonly tls: PostgresTls;
  /** Paths of PEM files. If null, Node's trusted authorities apply, and no client certificate is sent. */
  readonly authorityFile: string | null;
  readonly certificateFile: string | null;
  readonly keyFile: string | null;
  /** Command-line options of the session, such as "-c search_path=farebox". */
  readonly options: string | null;
}

/** A problem completes the sentence "FAREBOX_DATABASE …" without quoting the address, which may contain a password. */
type PostgresUrlResult = OrProblem<{ server: PostgresServer }>;

/** Supported values of `sslmode`; see docs/postgresql.md. */
const modes: Readonly<Record<string, PostgresTls>> = {
  disable: "none",
  "no-verify": "unverified",
  "verify-ca": "authority",
  // Many services recommend `require`, for which libpq verifies nothing. Farebox verifies, because users expect it.
  require: "verified",
  "verify-full": "verified",
};

const known = ["sslmode", "sslrootcert", "sslcert", "sslkey", "options", "host"];
const example = "postgres://farebox:PASSWORD@db.example/farebox";

/** Returns true if a text has the scheme of a PostgreSQL address. */
export function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:/i.test(text);
}

/**
 * Parses `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=…`. Without `sslmode`, Farebox uses TLS unless the host
 * is this machine.
 */
export function parsePostgresUrl(text: string): PostgresUrlResult {
  const refused = (problem: string): PostgresUrlResult => ({ ok: false, problem });
  const url = isPostgresUrl(text) ? urlOf(text) : null;
  if (url === null || !/^postgres(ql)?:\/\//i.test(text) || url.hash !== "") {
    return refused(
      `must be an address such as ${example}; in a password, write @ : / ? # and % as %40 %3A %2F %3F %23 and %25`,
    );
  }
  const parameters = url.searchParams;
  if ([...parameters.keys()].some((name) => !known.includes(name))) {
    return refused(`must use only the parameters ${known.join(", ")}`);
  }
  const decoded = decodedParts(url);
  if (decoded === null) return refused("must have two hexadecimal digits after each %; write % itself as %25");
  const { user, password, database } = decoded;
  const host = parameters.get("host") ?? decoded.host;
  const port = url.port === "" ? 5432 : Number(url.port);
  if (host === "") return refused(`must name the server's host, such as ${example}`);
  if (host.includes(",")) return refused("must name only one host");
  if (user === "") return refused(`must name the role to log in as, such as ${example}`);
  if (database === "" || database.includes("/"))
    return refused(`must name one database after the host, such as ${example}`);
  const mode = parameters.get("sslmode");
  const tls = mode === null ? (isThisMachine(host) ? "none" : "verified") : modes[mode];
  if (tls === undefined) return refused(`must set sslmode to one of ${Object.keys(modes).join(", ")}`);
  const given = (name: string) => parameters.get(name) || null;
  return {
    ok: true,
    server: {
      host,
      port,
      user,
      password: password === "" ? null : password,
      database,
      tls,
      authorityFile: given("sslrootcert"),
      certificateFile: given("sslcert"),
      keyFile: given("sslkey"),
      options: given("options"),
    },
  };
}

/** Returns the address for display, without password and parameters. */
export function shownPostgres({ host, port, user, database }: PostgresServer): string {
  const shownHost = host.startsWith("/") ? encodeURIComponent(host) : bracketed(host);
  return `postgres://${encodeURIComponent(user)}@${shownHost}${port === 5432 ? "" : `:${port}`}/${encodeURIComponent(database)}`;
}

/** Returns true if the host is this machine. Traffic to such a host never leaves the machine. */
function isThisMachine(host: string): boolean {
  const name = host.replace(/\.$/, "");
  return host.startsWith("/") || isLoopbackHost(name) || addressKind(name) === "loopback";
}

function urlOf(text: string): URL | null {
  return URL.canParse(text) ? new URL(text) : null;
}

function decodedParts(url: URL) {
  try {
    return {
      user: decodeURIComponent(url.username),
      password: decodeURIComponent(url.password),
      host: decodeURIComponent(hostOf(url)),
      database: decodeURIComponent(url.pathname.slice(1)),
    };
  } catch {
    return null;
  }
}
