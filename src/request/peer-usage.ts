import { nothingUsed, sumOfUse, type LimitUse } from "../core/limits.ts";
import type { Peers } from "../ports/fleet.ts";
import type { PeerUsage } from "./limits.ts";

/** Returns the usage that live peers reported with their last beats, summed once for each beat of this proxy. */
export function peerUsageOf(peers: Peers): PeerUsage {
  let sums = new Map<string, LimitUse>();
  peers.onBeat(() => {
    sums = new Map();
    for (const { report } of peers.live()) {
      for (const [id, use] of Object.entries(report?.used ?? {}))
        sums.set(id, sumOfUse(sums.get(id) ?? nothingUsed, use));
    }
  });
  return (id) => sums.get(id) ?? nothingUsed;
}
