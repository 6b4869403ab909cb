import {
  chooseProxy,
  parseExemptions,
  parseProxy,
  type ChooseProxy,
  type OutboundProxy,
} from "../core/outbound-proxy.ts";
import { Secret } from "./secret.ts";
import type { Environment } from "./sources.ts";

/** Texts of the standard variables that name the HTTP proxies of the network; null if a variable is not set. */
export interface OutboundSettings {
  /** Address of the proxy for https addresses. It may contain a password. */
  readonly https: Secret | null;
  /** Address of the proxy for http addresses. It may contain a password. */
  readonly http: Secret | null;
  /** Hosts without a proxy. */
  readonly noProxy: string | null;
}

interface OutboundRead {
  readonly outbound: OutboundSettings;
  readonly problems: readonly string[];
}

/** Settings with which Farebox connects directly to every host. */
export const noOutbound: OutboundSettings = { https: null, http: null, noProxy: null };

/**
 * Reads the standard variables for outbound proxies. As in curl, the name in lower case precedes the one in upper case,
 * and an empty variable counts as not set.
 */
export function readOutbound(env: Environment): OutboundRead {
  const problems: string[] = [];
  const read = (name: string, isValid: (text: string) => boolean, must: string) => {
    const given = [name.toLowerCase(), name].find((each) => (env[each] ?? "").trim() !== "");
    const text = given === undefined ? null : (env[given] ?? "").trim();
    if (text === null || isValid(text)) return text;
    problems.push(`${given} must be ${must}`);
    return null;
  };
  const isProxy = (text: string) => parseProxy(text) !== undefined;
  const proxy = "the address of an HTTP proxy such as http://proxy.example:3128, with http://, https:// or no scheme";
  const [https, http] = [read("HTTPS_PROXY", isProxy, proxy), read("HTTP_PROXY", isProxy, proxy)];
  if (https === null && http === null) return { outbound: noOutbound, problems };
  const noProxy = read(
    "NO_PROXY",
    (text) => parseExemptions(text) !== undefined,
    "a list of host names, domains, IP addresses and ranges such as localhost,.corp.example,10.0.0.0/8, or *",
  );
  const secret = (text: string | null) => (text === null ? null : new Secret(text));
  return { outbound: { https: secret(https), http: secret(http), noProxy }, problems };
}

/** Returns the decision of which connections use a proxy. */
export function proxyChoice({ https, http, noProxy }: OutboundSettings): ChooseProxy {
  const proxyIn = (text: Secret | null): OutboundProxy | null =>
    text === null ? null : (parseProxy(text.reveal()) ?? null);
  return chooseProxy({ https: proxyIn(https), http: proxyIn(http), exemptions: parseExemptions(noProxy ?? "") ?? [] });
}
