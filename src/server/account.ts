import type { Settings } from "../config/settings.ts";
import { openGateway } from "./gateway.ts";
import type { Clock } from "../ports/clock.ts";
import {
  fetchWhole,
  personWaitsMsMax,
  plainBody,
  recordBytesMax,
  accountRecordIn,
  type WholeAnswer,
  isKeyRefused,
} from "../request/fetch-whole.ts";
import { describedFailure } from "../request/gateway-failure.ts";
import { accountFault } from "../wire/account.ts";
import { parseJson } from "../wire/json.ts";

export type AccountReading =
  /** `record` is the gateway's parsed answer. `fetchedAt` is in milliseconds since 1970 UTC. */
  | { readonly ok: true; readonly record: unknown; readonly fetchedAt: number }
  /** `message` is one sentence for a person. It never contains the gateway key. */
  | { readonly ok: false; readonly message: string };

/** Fetches the account record from the gateway. */
export async function readAccountOnce(settings: Settings, clock: Clock): Promise<AccountReading> {
  const { address, apiKey } = settings.gateway;
  if (address === null || apiKey === null)
    return { ok: false, message: "the balance needs FAREBOX_GATEWAY_URL and FAREBOX_GATEWAY_API_KEY; set both" };
  const baseUrl = address.origin + address.basePath;
  await using gateway = await openGateway(settings, { baseUrl, apiKey: apiKey.reveal(), clock });
  const answer = await fetchWhole(gateway, "/account/info", Math.min(settings.gateway.silenceMs, personWaitsMsMax));
  const found = await accountRecordIn(answer);
  if (found !== undefined) return { ok: true, record: found.body, fetchedAt: clock.now() };
  return { ok: false, message: `the gateway at ${address.origin} ${await problemOf(answer)}` };
}

async function problemOf(answer: WholeAnswer): Promise<string> {
  if (!answer.ok) return describedFailure(answer.failure).problem;
  const { status } = answer.head;
  if (await isKeyRefused(answer)) return "refuses the key of this proxy; check FAREBOX_GATEWAY_API_KEY";
  if (status === 404) return "has no account record (404); run farebox doctor to check the address";
  if (status !== 200) return `answered with status ${status}`;
  const bytes = await plainBody(answer, recordBytesMax);
  const fault = bytes && accountFault(parseJson(bytes.toString("utf8")));
  return typeof fault === "object"
    ? `answered with an error instead of the account record (${fault.reason})`
    : "sent an answer that is not an account record";
}
