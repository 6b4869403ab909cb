import { noOutbound, proxyChoice, type OutboundSettings } from "../../config/outbound.ts";
import { isLoopbackHost } from "../../core/addresses.ts";
import type { ChooseProxy } from "../../core/outbound-proxy.ts";
import { ProxyFailed } from "../../gateway/tunnel.ts";
import { systemClock } from "../../platform/clock.ts";

type FetchedText = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly problem: string };

export interface FetchBounds {
  /** Longest time for the whole download, redirects included, in milliseconds. */
  readonly timeoutMs: number;
  /** Largest size of the decompressed text, in bytes. */
  readonly bytesMax: number;
  readonly redirectsMax: number;
}

/** Default bounds, for tables of prices. The size is several times that of the largest known table. */
const tableBounds: FetchBounds = { timeoutMs: 60_000, bytesMax: 32 * 1024 ** 2, redirectsMax: 5 };

/**
 * Downloads a text over https, or over http from this machine. Checks the address of every redirect like the first
 * address.
 */
export async function fetchText(
  address: string,
  options: Partial<FetchBounds> & { readonly outbound?: OutboundSettings } = {},
): Promise<FetchedText> {
  const { timeoutMs, bytesMax, redirectsMax, outbound } = { outbound: noOutbound, ...tableBounds, ...options };
  const refused = (problem: string): FetchedText => ({ ok: false, problem: `${shownAddress(address)} ${problem}` });
  const signal = AbortSignal.timeout(timeoutMs);
  let url = new URL(address);
  const mayBePlain = isLoopbackHost(url.hostname);
  const hasProxy = outbound.https !== null || outbound.http !== null;
  const fetcher = hasProxy ? await proxyFetcher(proxyChoice(outbound)) : null;
  try {
    for (let redirects = 0; ; redirects++) {
      const fault = faultOf(url, mayBePlain);
      if (fault !== null)
        return refused(redirects === 0 ? fault : `redirects to ${shownAddress(url.href)}, which ${fault}`);
      const answer = await (fetcher?.fetch ?? fetch)(url.href, {
        signal,
        redirect: "manual",
        headers: { accept: "application/json, */*" },
      });
      const next = answer.headers.get("location");
      if (answer.status >= 300 && answer.status < 400 && next !== null) {
        await answer.body?.cancel();
        if (redirects === redirectsMax) return refused(`redirects more than ${redirectsMax} times`);
        if (!URL.canParse(next, url.href)) return refused("redirects to an invalid address");
        url = new URL(next, url);
        continue;
      }
      if (!answer.ok) {
        await answer.body?.cancel();
        return refused(`answered with status ${answer.status}`);
      }
      const bytes = await bytesOf(answer, bytesMax);
      return bytes === undefined
        ? refused(`is larger than ${Math.floor(bytesMax / 1024 ** 2)} MB`)
        : { ok: true, text: bytes.toString("utf8") };
    }
  } catch (error) {
    if (signal.aborted) return refused(`was not downloaded within ${timeoutMs / 1000} s`);
    if (error instanceof Error && error.cause instanceof ProxyFailed)
      return refused(`cannot be downloaded: ${error.cause.message}`);
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return refused(
      `cannot be downloaded: ${cause instanceof Error ? ("code" in cause ? String(cause.code) : cause.message) : String(cause)}`,
    );
  } finally {
    await fetcher?.end();
  }
}

async function proxyFetcher(choose: ChooseProxy) {
  const { createProxyFetcher } = await import("../../gateway/proxy-fetcher.ts");
  return createProxyFetcher(choose, systemClock());
}

/** Returns the reason why an address must not be used for a download; null if it may be. */
function faultOf(url: URL, mayBePlain: boolean): string | null {
  if (url.username !== "" || url.password !== "") return "must not contain a user name or password";
  if (url.protocol === "https:" || (url.protocol === "http:" && mayBePlain && isLoopbackHost(url.hostname)))
    return null;
  return "must begin with https://; plain http is allowed only for this machine";
}

/** Reads the body. Returns undefined if it has more than `bytesMax` bytes. */
async function bytesOf(answer: Pick<Response, "body">, bytesMax: number): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.length;
    if (size > bytesMax) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Returns the address without its password and query: the query may contain a token. */
function shownAddress(address: string): string {
  const url = new URL(address);
  return `${url.origin}${url.pathname}`;
}
