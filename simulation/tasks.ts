import type { Behavior, Piece, Wire } from "./pieces.ts";
import { chunk, headOf } from "./pieces.ts";
import { familyCreation } from "./prices.ts";
import type { World } from "./world.ts";

/** Longest time of a task at the gateway, in milliseconds; shorter than any limit after which Farebox abandons a task. */
const durationMsMax = 600_000;
/** Largest number of units that one second of video consumes. */
const unitsPerSecond = 1_000;

/** Task at the gateway. It continues when the proxy crashes. */
interface SimulatedTask {
  readonly id: string;
  readonly marker: string;
  readonly endsAt: number;
  readonly fails: boolean;
  readonly units: number;
  isCancelled: boolean;
}

/** Tasks of the gateway and their bills. */
export class SimulatedTasks {
  readonly #world: World;
  readonly #byId = new Map<string, SimulatedTask>();
  readonly #byMarker = new Map<string, SimulatedTask>();

  constructor(world: World) {
    this.#world = world;
  }

  /** Returns the units that the gateway bills for the task of a request; null if the request created no task. */
  billed(marker: string): number | null {
    const task = this.#byMarker.get(marker);
    return task === undefined ? null : this.#unitsOf(task);
  }

  /** Answers a request that creates, retrieves or cancels a task. */
  answer(wire: Wire, method: string, path: string, body: Buffer | undefined, behavior: Behavior): void {
    const { chance } = this.#world;
    const json = (status: number, value: unknown): Piece[] => [
      { kind: "head", head: headOf(status, "application/json") },
      chunk(JSON.stringify(value)),
      { kind: "end" },
    ];
    const isBroken = behavior.kind === "silent" || behavior.kind === "reset";
    // On the family's own path, an answer with status 200 carries the error.
    const isFamily = path === familyCreation;
    if (behavior.kind === "status")
      return wire.write(
        ...json(isFamily ? 200 : behavior.status, { code: behavior.status, data: null, message: "simulated" }),
      );
    if (method === "POST" && body !== undefined) {
      // The gateway may create a task although its answer never arrives.
      const task = isBroken && !behavior.billed ? undefined : this.#create(body);
      if (isBroken || task === undefined) return behavior.kind === "reset" ? wire.write({ kind: "broken" }) : undefined;
      if (behavior.kind === "unreadable") return wire.write(...json(200, "made"));
      return wire.write(
        ...json(
          200,
          isFamily
            ? { task_id: task.id, status: "success", message: "" }
            : { code: 200, data: { task_id: task.id, status: "pending" }, message: "success" },
        ),
      );
    }
    if (isBroken) return behavior.kind === "reset" ? wire.write({ kind: "broken" }) : undefined;
    const task = this.#byId.get(path.split("/").at(-1) ?? "");
    if (task === undefined) return wire.write(...json(404, { code: 404, message: "no such task" }));
    if (method === "DELETE" && this.#world.elapsedMs < task.endsAt && chance.happens(0.7)) task.isCancelled = true;
    wire.write(...json(200, { code: 200, data: this.#record(task), message: "success" }));
  }

  #create(body: Buffer): SimulatedTask {
    const { chance, elapsedMs } = this.#world;
    const request = JSON.parse(body.toString()) as { user: string; input?: { duration?: unknown }; duration?: unknown };
    const { user: marker, input = request } = request;
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

  #unitsOf(task: SimulatedTask): number {
    return task.isCancelled || task.fails || this.#world.elapsedMs < task.endsAt ? 0 : task.units;
  }

  #record(task: SimulatedTask): object {
    const hasEnded = task.isCancelled || this.#world.elapsedMs >= task.endsAt;
    const status = task.isCancelled ? "cancelled" : !hasEnded ? "processing" : task.fails ? "failed" : "completed";
    const meta = hasEnded
      ? { ended_at: "2026-11-20T12:01:02Z", usage: { type: "llm", consume: this.#unitsOf(task) } }
      : {};
    return {
      task_id: task.id,
      status,
      meta,
      error: task.fails && hasEnded ? { code: 10000, message: "it did not work" } : { code: 0, message: "" },
    };
  }
}
