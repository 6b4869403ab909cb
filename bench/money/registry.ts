// cspell:ignore gomodel otari
import type { Peer } from "./peer.ts";

const farebox = (name: string) => async () =>
  (await import("./farebox.ts")).peers.find((peer) => peer.name === name) as Peer;

/** Functions that load a peer, by its name. A run loads only the peers that it measures. */
const peers: Readonly<Record<string, () => Promise<Peer>>> = {
  farebox: farebox("farebox"),
  "farebox-undici": farebox("farebox-undici"),
  "farebox-workers": farebox("farebox-workers"),
  "farebox-postgres": farebox("farebox-postgres"),
  litellm: async () => (await import("./peers/litellm.ts")).peer,
  bifrost: async () => (await import("./peers/bifrost.ts")).peer,
  otari: async () => (await import("./peers/otari.ts")).peer,
  gomodel: async () => (await import("./peers/gomodel.ts")).peer,
  "one-api": async () => (await import("./peers/one-api.ts")).peer,
};

export const peerNames: readonly string[] = Object.keys(peers);

/** Loads a peer. Throws an error if no peer has this name. */
export async function loadPeer(name: string): Promise<Peer> {
  const load = peers[name];
  if (load === undefined) throw new Error(`unknown peer "${name}"; the peers are ${peerNames.join(", ")}`);
  return load();
}
