import { bracketed } from "../core/addresses.ts";
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

/** Stands for every receiver of webhooks whose address clients choose, except those that `NO_PROXY` exempts. */
export const anyReceiver = new URL("https://receiver.invalid");

/**
 * Reads the standard variables for outbound proxies. As in curl, the name in lower case precedes the one in upper case,
 * and an empty variable counts as not set. The variables are often meant for other programs: a wrong one is a problem
 * only if it applies to one of the `targets`, and otherwise counts as not set.
 */
export function readOutbound(env: Environment, targets: readonly URL[]): OutboundRead {
  const find = (name: string): readonly [name: string, text: string] | undefined =>
    [name.toLowerCase(), name].map((each) => [each, (env[each] ?? "").trim()] as const).find(([, text]) => text !== "");
  const noProxy = find("NO_PROXY")?.[1] ?? null;
  const problems: string[] = [];
  const read = (scheme: "https" | "http"): Secret | null => {
    const [name, text = ""] = find(`${scheme.toUpperCase()}_PROXY`) ?? [];
    if (name === undefined) return null;
    if (parseProxy(text) !== undefined) return new Secret(text);
    const wanted = { ...noOutbound, [scheme]: new Secret("proxy.invalid"), noProxy };
    if (targets.some((target) => proxyChoice(wanted)(target) !== null))
      problems.push(
        `${name} must be the address of an HTTP proxy such as http://proxy.example:3128, with http://, https:// or no scheme`,
      );
    return null;
  };
  const [https, http] = [read("https"), read("http")];
  return { outbound: https === null && http === null ? noOutbound : { https, http, noProxy }, problems };
}

/** Returns the decision of which connections use a proxy. */
export function proxyChoice({ https, http, noProxy }: OutboundSettings): ChooseProxy {
  const proxyIn = (text: Secret | null): OutboundProxy | null =>
    text === null ? null : (parseProxy(text.reveal()) ?? null);
  return chooseProxy({ https: proxyIn(https), http: proxyIn(http), exemptions: parseExemptions(noProxy ?? "") });
}

/**
 * Returns the variables with which a program that is started here reaches a host directly; none if no proxy is set. Some
 * programs read only one of the two names, and many send even requests to this machine to a proxy.
 */
export function exempting(host: string, env: Environment): Readonly<Record<string, string>> {
  const hasProxy = Object.entries(env).some(([name, text = ""]) => /^(?:https?|all)_proxy$/i.test(name) && text !== "");
  if (!hasProxy) return {};
  const listIn = (...names: readonly string[]): string => {
    const list = names.map((name) => (env[name] ?? "").trim()).find((text) => text !== "");
    // Programs understand "*" only if it is alone.
    return list === "*" ? list : [...new Set([...(list === undefined ? [] : [list]), host, bracketed(host)])].join(",");
  };
  return { no_proxy: listIn("no_proxy", "NO_PROXY"), NO_PROXY: listIn("NO_PROXY", "no_proxy") };
}
