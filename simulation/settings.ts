import { loadSettings } from "../src/config/load.ts";
import type { Settings } from "../src/config/settings.ts";
import { usd } from "../src/core/money.ts";
import type { Plan } from "./plan.ts";

const loaded = loadSettings({
  env: { FAREBOX_GATEWAY_URL: "https://gateway.simulated", FAREBOX_GATEWAY_API_KEY: "gateway-key" },
  flags: {},
  readFile: () => ({ ok: false, code: "ENOENT" }),
  uses: "all",
});

/** Returns the proxy's settings, with shorter timeouts for silence and streams than the defaults. */
export function settingsOf({ streamUsage, sliceTokens, hasFloor, zone, outputCap, fitTokensMin }: Plan): Settings {
  if (!loaded.ok) throw new Error(loaded.problems.join("; "));
  const { settings } = loaded;
  return {
    ...settings,
    timeZone: zone,
    gateway: { ...settings.gateway, silenceMs: 30_000, streamMs: 300_000 },
    balance: { ...settings.balance, floor: hasFloor ? usd("1.2") : null },
    alerts: { ...settings.alerts, balanceFloor: hasFloor ? usd("1.2") : null },
    output: { cap: outputCap, fitTokensMin },
    stream: { usage: streamUsage, sliceTokens },
  };
}
