import { fareboxItself, type Admin } from "../../core/admins.ts";
import type { Key, KeyChange } from "../../core/keys.ts";
import type { Team, TeamChange } from "../../core/teams.ts";
import type { AdminCreation, AdminStore } from "../../ports/admin-store.ts";
import type { ChangedKey, KeyCreation, KeyPage, KeyPageQuery, KeyStore } from "../../ports/key-store.ts";
import type { ChangedTeam, TeamCreation, TeamRemoval, TeamStore } from "../../ports/team-store.ts";
import { submitOrThrow, type CommandQueue } from "../queue.ts";
import type { AdminReadings, KeyReadings, TeamReadings } from "../readings.ts";

/** Internal keys in the ledger's database. */
export class QueuedKeyStore implements KeyStore {
  readonly #queue: CommandQueue;
  readonly #reads: KeyReadings;

  constructor(queue: CommandQueue, reads: KeyReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async create(key: Key, by = fareboxItself): Promise<KeyCreation> {
    return submitOrThrow(this.#queue, ["createKey", key, by]);
  }

  async findById(id: string): Promise<Key | undefined> {
    return this.#reads.byId(id);
  }

  async find(nameOrId: string): Promise<Key | undefined> {
    return this.#reads.find(nameOrId);
  }

  async list(): Promise<readonly Key[]> {
    return this.#reads.list();
  }

  async page(query: KeyPageQuery): Promise<KeyPage> {
    return this.#reads.page(query);
  }

  async update(id: string, change: KeyChange, at: number, by = fareboxItself): Promise<ChangedKey | undefined> {
    return submitOrThrow(this.#queue, ["updateKey", id, change, at, by]);
  }

  async revoke(id: string, at: number, by = fareboxItself): Promise<boolean> {
    return submitOrThrow(this.#queue, ["revokeKey", id, at, by]);
  }
}

/** Teams in the ledger's database. */
export class QueuedTeamStore implements TeamStore {
  readonly #queue: CommandQueue;
  readonly #reads: TeamReadings;

  constructor(queue: CommandQueue, reads: TeamReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async create(team: Team, by = fareboxItself): Promise<TeamCreation> {
    return submitOrThrow(this.#queue, ["createTeam", team, by]);
  }

  async find(name: string): Promise<Team | undefined> {
    return this.#reads.find(name);
  }

  async list(): Promise<readonly Team[]> {
    return this.#reads.list();
  }

  async update(name: string, change: TeamChange, at: number, by = fareboxItself): Promise<ChangedTeam | undefined> {
    return submitOrThrow(this.#queue, ["updateTeam", name, change, at, by]);
  }

  async remove(name: string, at: number, by = fareboxItself): Promise<TeamRemoval> {
    return submitOrThrow(this.#queue, ["removeTeam", name, at, by]);
  }
}

/** Tokens of the admin API in the ledger's database. */
export class QueuedAdminStore implements AdminStore {
  readonly #queue: CommandQueue;
  readonly #reads: AdminReadings;

  constructor(queue: CommandQueue, reads: AdminReadings) {
    this.#queue = queue;
    this.#reads = reads;
  }

  async create(admin: Admin, by: string): Promise<AdminCreation> {
    return submitOrThrow(this.#queue, ["createAdmin", admin, by]);
  }

  async findById(id: string): Promise<Admin | undefined> {
    return this.#reads.byId(id);
  }

  async find(nameOrId: string): Promise<Admin | undefined> {
    return this.#reads.find(nameOrId);
  }

  async list(): Promise<readonly Admin[]> {
    return this.#reads.list();
  }

  async revoke(id: string, at: number, by: string): Promise<boolean> {
    return submitOrThrow(this.#queue, ["revokeAdmin", id, at, by]);
  }
}
