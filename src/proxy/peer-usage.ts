import { nothingUsed, sumOfUse, type LimitUse } from "../core/limits.ts";
import type { Peers } from "../ports/fleet.ts";
import type { PeerUsage } from "./process-limiter.ts";

/** What the live peers said with their last beats, added up once for each beat of this proxy; one that died says nothing any more. */
export function peerUsageOf(peers: Peers): PeerUsage {
  let sums = new Map<string, LimitUse>();
  peers.onBeat(() => {
    sums = new Map();
    for (const { news } of peers.live()) {
      for (const [id, use] of Object.entries(news?.used ?? {}))
        sums.set(id, sumOfUse(sums.get(id) ?? nothingUsed, use));
    }
  });
  return (id) => sums.get(id) ?? nothingUsed;
}
