import type { StatedError } from "../core/settlement.ts";
import type { Events } from "../ports/events.ts";
import type { Gateway } from "../ports/gateway.ts";
import { accountFault } from "../wire/account.ts";
import { refusesKey, statesKeyRefusal } from "../wire/key-refusal.ts";
import { parseJson } from "../wire/json.ts";
import { readStatedError } from "../wire/stated-error.ts";
import type { Account } from "./account.ts";
import { fetchWhole, plainBody, recordBytesMax, type WholeAnswer } from "./fetch-whole.ts";

/** Knows if the gateway refuses the key of this proxy, by its latest answers. Reports only changes. */
export class KeyWatch {
  readonly #events: Pick<Events, "gatewayKey">;
  #isRefused = false;

  constructor(events: Pick<Events, "gatewayKey">) {
    this.#events = events;
  }

  get isRefused(): boolean {
    return this.#isRefused;
  }

  saw(isRefused: boolean): void {
    if (this.#isRefused === isRefused) return;
    this.#isRefused = isRefused;
    this.#events.gatewayKey({ isRefused });
  }
}

/** Returns true if an answer about the account or the models says that the gateway does not accept the key. */
export async function isKeyRefused(
  answer: WholeAnswer,
  faultOf: (record: unknown) => StatedError | string | undefined = accountFault,
): Promise<boolean> {
  if (!answer.ok) return false;
  const { status } = answer.head;
  const plain = await plainBody(answer, recordBytesMax);
  if (status >= 300) return refusesKey(status, plain, true);
  const fault = plain && faultOf(parseJson(plain.toString("utf8")));
  return typeof fault === "object" && statesKeyRefusal(fault, true);
}

interface CheckDeps {
  readonly account: Pick<Account, "lookUp">;
  readonly gateway: Gateway;
  readonly keyWatch: KeyWatch;
  readonly silenceMs: number;
}

/**
 * Checks the key with the account record, or with the list of models if the gateway has no record. Some gateways return
 * the list for any key, so it proves nothing.
 */
export async function checkGatewayKey({ account, gateway, keyWatch, silenceMs }: CheckDeps): Promise<void> {
  const found = await account.lookUp();
  if (found.ok || !found.answer.ok || found.answer.head.status !== 404) return;
  if (await isKeyRefused(await fetchWhole(gateway, "/v1/models", silenceMs), readStatedError)) keyWatch.saw(true);
}
