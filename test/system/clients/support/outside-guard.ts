/**
 * Loaded before a client (`node --import`, or imported first): refuses and records every attempt to reach anything but
 * this machine, so that a test can check the attempts. Node's own sockets and look-ups, including those of `fetch`,
 * use the functions replaced here.
 */
import dns from "node:dns";
import { appendFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { Socket } from "node:net";

/** Hosts that this process tried to reach, oldest first. */
export const outside: string[] = [];

/** Variable with the path of the file in which a child process records its attempts, one per line. */
export const logVariable = "FAREBOX_TEST_OUTSIDE_LOG";

const here = /^(localhost|127(\.\d+){3}|::1)$/;

function refusal(host: string): Error {
  outside.push(host);
  const log = process.env[logVariable];
  if (log !== undefined) appendFileSync(log, `${host}\n`);
  return Object.assign(new Error(`the tests let nothing reach ${host}`), { code: "ECONNREFUSED" });
}

type Anything = (...args: unknown[]) => unknown;

const connect = Socket.prototype.connect as Anything;
Socket.prototype.connect = function guarded(this: Socket, ...args: unknown[]) {
  const host = hostOf(args.flat());
  if (host === undefined || here.test(host)) return connect.apply(this, args);
  process.nextTick(() => this.destroy(refusal(host)));
  return this;
} as typeof Socket.prototype.connect;

/** Returns the host of `connect(options)`, `connect(port, host)` and, without a host, `connect(path)`. */
function hostOf([first, second]: unknown[]): string | undefined {
  const host = typeof first === "object" && first !== null ? (first as { host?: unknown }).host : second;
  return typeof host === "string" ? host : undefined;
}

const lookup = dns.lookup as Anything;
dns.lookup = ((host: string, options: unknown, done: unknown = options) => {
  if (here.test(host)) return lookup(host, options, done);
  return process.nextTick(done as Anything, refusal(host));
}) as typeof dns.lookup;
dns.promises.lookup = ((host: string) => Promise.reject(refusal(host))) as typeof dns.promises.lookup;
syncBuiltinESMExports();
