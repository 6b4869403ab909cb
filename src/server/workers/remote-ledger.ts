import type { KeyStore } from "../../ports/key-store.ts";
import type { Charging } from "../../ports/ledger.ts";
import type { RunSessions } from "../../ports/run-sessions.ts";
import type { TeamStore } from "../../ports/team-store.ts";
import type { Command } from "../../ledger/commands.ts";
import { QueuedCharges } from "../../ledger/queued-charges.ts";
import type { Answer, CommandSink } from "../../ledger/queue.ts";
import type { PrimaryLink, RequestCommand } from "./protocol.ts";

/** Creates a ledger that sends commands of requests to the primary, where those of all workers share transactions. */
export function createRemoteLedger(link: PrimaryLink): Charging {
  const sink: CommandSink = {
    async submit<C extends Command>(command: C): Promise<Answer<C>> {
      const outcome = await link.ask("command", command as unknown as RequestCommand);
      if (outcome.kind === "done") return { ok: true, reply: outcome.reply } as Answer<C>;
      if (outcome.kind === "unavailable") return { ok: false, message: outcome.message };
      throw new Error(outcome.message);
    },
  };
  return new QueuedCharges(sink);
}

/** Creates stores that ask the primary. A worker's keyring remembers their answers. */
export function remoteKeys(link: PrimaryLink): {
  readonly keys: Pick<KeyStore, "findById">;
  readonly teams: Pick<TeamStore, "find">;
  readonly sessions: Pick<RunSessions, "secret" | "find">;
} {
  return {
    keys: { findById: (id) => link.ask("key", id) },
    teams: { find: (name) => link.ask("team", name) },
    sessions: { find: (id) => link.ask("session", id), secret: () => link.ask("sessionSecret", null) },
  };
}
