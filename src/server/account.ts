import type { Settings } from "../config/settings.ts";
import { createGateway } from "../gateway/gateway.ts";
import type { Clock } from "../ports/clock.ts";
import { fetchWhole, type WholeAnswer } from "../request/fetch-whole.ts";
import { isObject, parseJson } from "../wire/json.ts";

export type AccountReading =
  /** `record` is the gateway's parsed answer. `fetchedAt` is in milliseconds since 1970 UTC. */
  | { readonly ok: true; readonly record: unknown; readonly fetchedAt: number }
  /** `message` is one sentence for a person. It never contains the gateway key. */
  | { readonly ok: false; readonly message: string };

/** Longest time that a waiting user is kept without an answer, in milliseconds. */
const patienceMs = 15_000;

/** Fetches the account record from the gateway. */
export async function readAccountOnce(settings: Settings, clock: Clock): Promise<AccountReading> {
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null)
    return { ok: false, message: "the balance needs the gateway's address and its key" };
  const baseUrl = address.origin + address.basePath;
  await using gateway = createGateway(settings.gateway.engine, { baseUrl, apiKey: apiKey.reveal(), clock });
  const answer = await fetchWhole(gateway, "/account/info", Math.min(settings.gateway.silenceMs, patienceMs));
  const record = answer.ok && answer.head.status === 200 ? parseJson(answer.bytes.toString("utf8")) : undefined;
  if (isObject(record)) return { ok: true, record, fetchedAt: clock.now() };
  return { ok: false, message: `the gateway at ${address.origin} ${trouble(answer)}` };
}

function trouble(answer: WholeAnswer): string {
  if (!answer.ok) {
    switch (answer.failure.kind) {
      case "unreachable":
        return "cannot be reached; check FAREBOX_GATEWAY_URL and the network";
      case "silent":
        return "did not answer in time";
      case "redirect":
        return "redirects to another address; FAREBOX_GATEWAY_URL should name that one";
      case "reset":
        return "broke the connection off";
      case "too_large":
        return "sent an account record that is too large";
    }
  }
  if (answer.head.status === 401) return "does not accept the key; check FAREBOX_GATEWAY_API_KEY";
  const { status } = answer.head;
  if (status === 404)
    return "has no account record (404); farebox doctor says whether the address is that of a gateway";
  if (status !== 200) return `answered with status ${status}`;
  return "sent an account record that is no JSON object";
}
