import type { Manner, Piece, Wire } from "./pieces.ts";
import { chunk, headOf } from "./pieces.ts";
import { familyCreation } from "./prices.ts";
import type { World } from "./world.ts";

/** Seconds that a task may take at the gateway: below every limit at which Farebox gives one up. */
const durationMsMax = 600_000;
/** Units that a second of what is made uses up, at most. */
const unitsPerSecond = 1_000;

/** One task at the gateway, which runs there whatever becomes of the proxy. */
interface SimulatedTask {
  readonly id: string;
  readonly marker: string;
  readonly endsAt: number;
  readonly fails: boolean;
  readonly units: number;
  isCancelled: boolean;
}

/** The gateway's tasks, and what it bills for them. */
export class SimulatedTasks {
  readonly #world: World;
  readonly #byId = new Map<string, SimulatedTask>();
  readonly #byMarker = new Map<string, SimulatedTask>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Units that the task of a creation used, once it has ended; null where there is no such task. */
  billed(marker: string): number | null {
    const task = this.#byMarker.get(marker);
    return task === undefined ? null : this.#usedBy(task);
  }

  /** Answers what is asked of tasks. */
  answer(wire: Wire, method: string, path: string, body: Buffer | undefined, manner: Manner): void {
    const { chance } = this.#world;
    const json = (status: number, value: unknown): Piece[] => [
      { kind: "head", head: headOf(status, "application/json") },
      chunk(JSON.stringify(value)),
      { kind: "end" },
    ];
    const isBroken = manner.kind === "silent" || manner.kind === "reset";
    // On its own path the family refuses inside an answer of 200.
    const isFamily = path === familyCreation;
    if (manner.kind === "status")
      return wire.write(
        ...json(isFamily ? 200 : manner.status, { code: manner.status, data: null, message: "simulated" }),
      );
    if (method === "POST" && body !== undefined) {
      // It may be made although no one ever hears of it.
      const task = isBroken && !manner.billed ? undefined : this.#make(body);
      if (isBroken || task === undefined) return manner.kind === "reset" ? wire.write({ kind: "broken" }) : undefined;
      if (manner.kind === "unreadable") return wire.write(...json(200, "made"));
      return wire.write(
        ...json(
          200,
          isFamily
            ? { task_id: task.id, status: "success", message: "" }
            : { code: 200, data: { task_id: task.id, status: "pending" }, message: "success" },
        ),
      );
    }
    if (isBroken) return manner.kind === "reset" ? wire.write({ kind: "broken" }) : undefined;
    const task = this.#byId.get(path.split("/").at(-1) ?? "");
    if (task === undefined) return wire.write(...json(404, { code: 404, message: "no such task" }));
    if (method === "DELETE" && this.#world.elapsedMs < task.endsAt && chance.happens(0.7)) task.isCancelled = true;
    wire.write(...json(200, { code: 200, data: this.#record(task), message: "success" }));
  }

  #make(body: Buffer): SimulatedTask {
    const { chance, elapsedMs } = this.#world;
    const asked = JSON.parse(body.toString()) as { user: string; input?: { duration?: unknown }; duration?: unknown };
    const { user: marker, input = asked } = asked;
    const id = `t-${this.#byId.size + 1}`;
    const seconds = typeof input.duration === "number" ? Math.min(input.duration, 10) : 5;
    const task = {
      id,
      marker,
      endsAt: elapsedMs + chance.below(durationMsMax),
      fails: chance.happens(0.2),
      units: chance.between(1, seconds * unitsPerSecond),
      isCancelled: false,
    };
    this.#byId.set(id, task);
    this.#byMarker.set(marker, task);
    return task;
  }

  #usedBy(task: SimulatedTask): number {
    return task.isCancelled || task.fails || this.#world.elapsedMs < task.endsAt ? 0 : task.units;
  }

  #record(task: SimulatedTask): object {
    const hasEnded = task.isCancelled || this.#world.elapsedMs >= task.endsAt;
    const status = task.isCancelled ? "cancelled" : !hasEnded ? "processing" : task.fails ? "failed" : "completed";
    const meta = hasEnded
      ? { ended_at: "2026-11-20T12:01:02Z", usage: { type: "llm", consume: this.#usedBy(task) } }
      : {};
    return {
      task_id: task.id,
      status,
      meta,
      error: task.fails && hasEnded ? { code: 10000, message: "it did not work" } : { code: 0, message: "" },
    };
  }
}
