import { createHash } from "node:crypto";
import type { Settings } from "../src/config/settings.ts";
import type { PinnedPrice } from "../src/core/price.ts";
import { noLimits, type Limits } from "../src/core/limits.ts";
import { credentialOf } from "../src/wire/run-credential.ts";
import { everyKey } from "../src/core/slices.ts";
import type { BatchResult, Command, Replies } from "../src/ledger/commands.ts";
import { calendarOf } from "../src/platform/clock.ts";
import type { Charge } from "../src/core/charge.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import { faultsOf, type Case } from "./audit.ts";
import { Books } from "./books.ts";
import { SimulatedExchange } from "./client.ts";
import { Commits, soundCommits } from "./commits.ts";
import { Disk } from "./disk.ts";
import { SimulatedGateway } from "./gateway.ts";
import { startInstance, type Instance } from "./instance.ts";
import {
  bodyOf,
  budgetOf,
  changeKinds,
  keyNames,
  mannerOf,
  planOf,
  removalOf,
  secretOf,
  session,
  taskBodyOf,
  teams,
  zones,
  type Change,
  type Plan,
} from "./plan.ts";
import { editionOf, family, familyCreation, priceBeside } from "./prices.ts";
import { settingsOf } from "./settings.ts";
import { simulatedCounter } from "./tokens.ts";
import { Receiver } from "./webhook.ts";
import { outside, World, type Owner } from "./world.ts";

export interface RunOptions {
  readonly seed: string;
  readonly traced?: boolean;
  /** Crash at this step, whatever else the seed has. */
  readonly crashAt?: number;
}

export interface RunResult {
  readonly seed: string;
  readonly steps: number;
  readonly charges: number;
  readonly crashes: number;
  /** Nothing, where all is well. The step at which each was noticed comes first. */
  readonly faults: readonly string[];
  readonly trace: readonly string[] | null;
}

/** In simulated time, for what runs to come to its end. Milliseconds. */
const patienceMs = 4 * 3_600_000;
const stepsMax = 200_000;
/** Longer than any run. Milliseconds. */
const longMs = 10_000 * 86_400_000;

/** One run: everything that follows from the seed. */
export async function simulate(options: RunOptions): Promise<RunResult> {
  const simulation = new Simulation(options);
  const noticed = (error: unknown) =>
    simulation.fault(
      `an unhandled rejection: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
    );
  process.on("unhandledRejection", noticed);
  try {
    await simulation.run();
  } catch (error) {
    simulation.fault(error instanceof Error ? (error.stack ?? error.message) : String(error));
  } finally {
    process.off("unhandledRejection", noticed);
  }
  return simulation.result;
}

/** One run of the proxy, from its opening. */
interface Run {
  readonly owner: Owner;
  readonly calendar: Calendar;
  /** Undefined while it starts. */
  instance: Instance | undefined;
  isDraining: boolean;
}

class Simulation {
  readonly #options: RunOptions;
  readonly #world: World;
  readonly #plan: Plan;
  readonly #disk = new Disk();
  readonly #commits: Commits;
  readonly #gateway: SimulatedGateway;
  readonly #receiver: Receiver;
  readonly #books: Books;
  readonly #settings: Settings;
  readonly #exchanges = new Map<string, SimulatedExchange>();
  /** Credential of alice's session. */
  #credential = "";
  /** Edition of the prices in force when a request arrived, and when it was sent. */
  readonly #came = new Map<string, number>();
  readonly #sent = new Map<string, number>();
  readonly #cameAt = new Map<string, number>();
  /** Since when each key has been marked for a model without a break, and who was ever. Elapsed milliseconds. */
  readonly #markedSince = new Map<string, number>();
  readonly #everMarked = new Set<string>();
  readonly #crashed = new Set<Owner>();
  /** Charges that a run of the proxy could not end before it ended itself. */
  readonly #left = new Set<string>();
  readonly #revokedAt = new Map<string, number>();
  readonly #faults: string[] = [];
  #calendar: Calendar;
  #run: Run | undefined;
  #runs = 0;
  #edition = 0;
  #messageIds = 0;
  /** Clients that are still to come. */
  #toCome = 0;
  /** From here on nothing goes wrong any more, so that everything can come to its end. */
  #isCalm = false;
  #isAudit = false;

  constructor(options: RunOptions) {
    this.#options = options;
    const world = new World(options.seed, { startsAt: 0, traced: options.traced ?? false });
    this.#world = world;
    const plan = planOf(world.chance);
    this.#plan = plan;
    world.setWall(plan.startsAt);
    this.#calendar = calendarOf(plan.zone);
    this.#settings = settingsOf(plan);
    this.#books = new Books(
      this.#disk.look,
      () => this.#calendar,
      (what) => this.fault(what),
    );
    this.#commits = new Commits(
      world,
      () => (this.#isCalm ? soundCommits : plan.commits),
      (commands, result) => {
        this.#books.written(commands, result);
        this.#noteMarks(commands, result);
      },
    );
    this.#gateway = new SimulatedGateway({
      world,
      manner: (_stream, model) => mannerOf(world.chance, this.#isCalm ? 0 : plan.gatewayFaults, model),
      refusesUsage: plan.refusesUsage,
      bursts: plan.bursts,
      balance: () => (1 + world.chance.next()).toFixed(6),
      sending: (marker) => this.#sending(marker),
    });
    this.#receiver = new Receiver({
      world,
      failing: () => (this.#isCalm ? 0 : plan.failingWebhooks),
      onSend: (id) => this.#delivering(id),
    });
  }

  get result(): RunResult {
    const { seed } = this.#options;
    return {
      seed,
      steps: this.#world.steps,
      charges: this.#books.charges.size,
      crashes: this.#crashed.size,
      faults: this.#faults,
      trace: this.#world.trace,
    };
  }

  fault(what: string): void {
    // What comes of a fault is no news.
    if (this.#faults.length > 0 && !this.#isAudit) return;
    this.#faults.push(`step ${this.#world.steps}: ${what}`);
    this.#world.note(`FAULT: ${what}`);
  }

  async run(): Promise<void> {
    await this.#prepare();
    this.#start();
    this.#schedule();
    const { crashAt } = this.#options;
    const { crashes, lastsMs, troublesMs } = this.#plan;
    const world = this.#world;
    const isOver = () => world.elapsedMs > lastsMs + troublesMs || this.#faults.length > 0;
    while (!isOver() && (await this.#step())) {
      const isDue = crashAt === undefined ? world.chance.happens(crashes) : world.steps === crashAt;
      if (isDue) await this.#crash();
    }
    if (this.#faults.length > 0) return;
    await this.#calmDown();
    if (this.#faults.length === 0) await this.#audit();
  }

  async #step(): Promise<boolean> {
    if (this.#world.steps >= stepsMax) {
      this.fault("it goes on and on");
      return false;
    }
    return this.#world.step();
  }

  /** Keys and budgets, from the command line before the first start. */
  async #prepare(): Promise<void> {
    const { chance, now } = this.#world;
    const { ledger, keys, sessions } = this.#disk.beside(this.#calendar);
    for (const name of keyNames) {
      const limits: Limits = chance.happens(0.3)
        ? { rpm: chance.between(1, 6), tpm: chance.happens(0.3) ? 2_000 : null, parallel: chance.between(1, 3) }
        : noLimits;
      await keys.create({
        id: name,
        name,
        team: teams[name] ?? null,
        digest: createHash("sha256").update(secretOf(name)).digest("hex"),
        models: null,
        limits,
        outputCap: null,
        createdAt: now,
        expiresAt: null,
        revokedAt: null,
        rotatedAt: null,
        previous: null,
      });
    }
    const begun = { ...session, tags: {}, budget: null, createdAt: now, expiresAt: now + longMs, endedAt: null };
    await sessions.create(begun, null);
    this.#credential = credentialOf(begun, await sessions.secret());
    for (let count = chance.below(4); count > 0; count--)
      this.#books.budgetSet(await ledger.setBudget(budgetOf(chance), now), now);
  }

  #start(): void {
    const world = this.#world;
    const owner = ++this.#runs;
    const calendar = this.#calendar;
    const run: Run = { owner, calendar, instance: undefined, isDraining: false };
    this.#run = run;
    world.note(`run ${owner} starts, in ${calendar.timeZone}`);
    const clock = world.clock(owner);
    const store = this.#disk.open({
      calendar,
      clock,
      through: (apply) => this.#commits.channel(owner, apply),
      afterTurn: (callback) => world.after(owner, 0, "a turn is over", callback),
      onChanged: (tell) =>
        world.after(owner, world.chance.between(0, 1_000), "a change of keys or budgets is noticed", tell),
    });
    const starting = startInstance({
      world,
      owner,
      calendar,
      store,
      settings: this.#settings,
      gateway: this.#gateway.for(owner, clock),
      tokens: simulatedCounter(world, owner, () => (this.#isCalm ? 0 : this.#plan.busyCounter)),
      catalogue: () => editionOf(this.#edition),
      sender: this.#receiver.sender(owner),
      newId: () => `m${++this.#messageIds}`,
      onError: (message, error) => this.#logged(message, error),
    });
    void starting.then(
      (instance) => {
        run.instance = instance;
        world.note(`run ${owner} serves`);
      },
      (error: unknown) => {
        world.note(`run ${owner} could not start: ${String(error)}`);
        this.#end(run);
        world.after(outside, 1_000, "it is started again", () => this.#start());
      },
    );
  }

  /** Collects logged errors, except those that failing commits explain. */
  #logged(message: string, error: unknown): void {
    const isExpected =
      message.startsWith("a charge could not be settled") || /could not be written/.test(String(error));
    if (isExpected && !this.#isCalm) return;
    this.fault(`logged: ${message} ${error instanceof Error ? (error.stack ?? error.message) : ""}`);
  }

  #end(run: Run): void {
    this.#world.drop(run.owner);
    this.#gateway.lost(run.owner);
    if (this.#run === run) this.#run = undefined;
  }

  /** Everything in memory is gone, at whatever it was. */
  async #crash(): Promise<void> {
    const run = this.#run;
    if (run === undefined) return;
    const world = this.#world;
    world.note(`CRASH of run ${run.owner}`);
    this.#crashed.add(run.owner);
    for (const exchange of run.instance?.running ?? []) exchange.broken();
    this.#end(run);
    await this.#commits.crash();
    const zone = world.chance.happens(0.2) ? world.chance.pick(zones) : this.#calendar.timeZone;
    world.after(outside, world.chance.between(0, 2_000), "it is started again after its crash", () =>
      this.#startIn(zone),
    );
  }

  #startIn(zone: string): void {
    if (this.#run !== undefined) return;
    if (zone !== this.#calendar.timeZone) {
      this.#calendar = calendarOf(zone);
      this.#start();
      this.#books.zoneChanged(this.#world.now);
    } else this.#start();
  }

  #schedule(): void {
    const { chance } = this.#world;
    const { requests, lastsMs, changes } = this.#plan;
    this.#toCome = requests;
    for (let count = 1; count <= requests; count++)
      this.#world.after(outside, chance.below(lastsMs), `client ${count} comes`, () => this.#request());
    for (const kind of changeKinds) {
      for (let count = changes[kind]; count > 0; count--)
        this.#world.after(outside, chance.below(lastsMs), `a change: ${kind}`, () => this.#change(kind));
    }
  }

  #request(): void {
    const world = this.#world;
    const { chance } = world;
    const { instance, isDraining = true } = this.#run ?? {};
    if (instance === undefined || isDraining)
      return void world.after(outside, 200, "a client tries again to connect", () => this.#request());
    this.#toCome--;
    const id = `r${this.#exchanges.size + 1}`;
    const name = chance.pick(keyNames);
    const isInSession = name === session.key && this.#exchanges.size % 3 === 0;
    const [method, path] = this.#asking(name);
    const body = isCreation(path) ? taskBodyOf(chance, id, path === familyCreation) : bodyOf(chance, id, this.#plan);
    const exchange = new SimulatedExchange({
      world,
      id,
      method,
      path,
      owner: instance.owner,
      key: isInSession ? this.#credential : secretOf(name),
      body,
      slow: this.#plan.slowClients,
      isPassed: this.#plan.streamUsage === "pass",
      onFault: (what) => this.fault(what),
      onRefusal: (refusal) => instance.alerts.refused(refusal),
    });
    world.note(`${id} of ${name} asks ${path}`);
    this.#exchanges.set(id, exchange);
    this.#came.set(id, this.#edition);
    this.#cameAt.set(id, world.elapsedMs);
    if (chance.happens(this.#plan.leavingClients))
      world.after(outside, chance.pick([0, 5, 100, 3_000]), `${id}: its client leaves`, () => exchange.leave());
    instance.handle(exchange);
  }

  /** Draws a client's next request: mostly chats and tasks, then those tasks of its own that it knows. */
  #asking(name: string): readonly [method: string, path: string] {
    const { chance } = this.#world;
    const own = [...this.#exchanges.values()].flatMap(({ path, key, body }) =>
      isCreation(path) && key === secretOf(name) ? (/"task_id":"([^"]+)"/.exec(body)?.[1] ?? []) : [],
    );
    const [known] = own;
    // Every second one by a route of the price files; not by chance, so that a seed stays what it was.
    const isSecond = this.#exchanges.size % 2 === 1;
    if (known !== undefined && chance.happens(0.5)) {
      const taskId = chance.pick([known, ...own]);
      return chance.happens(0.8)
        ? ["GET", `${isSecond ? family : creation}/${taskId}`]
        : ["DELETE", `${creation}/${taskId}`];
    }
    const roll = chance.next();
    if (roll < 0.15) return ["POST", isSecond ? familyCreation : creation];
    return roll < 0.85 ? ["POST", "/v1/chat/completions"] : ["GET", chance.pick(["/account/info", "/v1/farebox/me"])];
  }

  #change(kind: Change): void {
    const world = this.#world;
    const { chance, now } = world;
    const beside = this.#disk.beside(this.#calendar);
    switch (kind) {
      case "clock": {
        const byMs = chance.pick([-7_200_000, -60_000, -1_000, 1_000, 900_000, 86_400_000]);
        world.setWall(byMs);
        return world.note(`the clock is set by ${byMs} ms`);
      }
      case "budget": {
        const budget = budgetOf(chance);
        void beside.ledger.setBudget(budget, now).then((set) => this.#books.budgetSet(set, now));
        return world.note(`budget ${JSON.stringify(budget.scope)} ${budget.period} is ${budget.limit} ${budget.mode}`);
      }
      case "removal": {
        const { scope, period } = removalOf(chance);
        void beside.ledger.removeBudget(scope, period, now);
        this.#books.budgetRemoved(`${scope}/${period}`);
        return world.note(`budget ${scope}/${period} is removed`);
      }
      case "prices":
        this.#edition++;
        return;
      case "revocation": {
        const name = chance.pick(keyNames);
        void beside.keys.revoke(name, now);
        if (!this.#revokedAt.has(name)) this.#revokedAt.set(name, world.elapsedMs);
        return world.note(`${name} is revoked`);
      }
      case "restart":
        void this.#restart(chance.happens(0.5) ? chance.pick(zones) : this.#calendar.timeZone);
    }
  }

  async #restart(zone: string): Promise<void> {
    const run = this.#run;
    if (run?.instance === undefined || run.isDraining) return;
    const { instance } = run;
    run.isDraining = true;
    this.#world.note(`run ${run.owner} drains`);
    await instance.drain();
    this.#world.note(`run ${run.owner} has ended`);
    this.#leave();
    this.#end(run);
    this.#startIn(zone);
  }

  /** Notes the charges that stay pending; the next run takes them for the remains of a crash. */
  #leave(): void {
    for (const id of this.#disk.look.pendingIds()) {
      // A task that is known runs on without us.
      if (this.#disk.look.isOfTask(id)) continue;
      if (this.#plan.commits === soundCommits) this.fault(`${id} is pending after the proxy has ended`);
      this.#left.add(id);
    }
  }

  /** A byte of a request leaves for the gateway: its hold must be durable, and still there. */
  #sending(marker: string): void {
    if (!this.#sent.has(marker)) this.#sent.set(marker, this.#edition);
    const charge = this.#disk.look.charge(marker);
    if (charge?.state !== "pending")
      this.fault(`${marker} is sent to the gateway, and its charge is ${charge?.state ?? "not there"}`);
    const exchange = this.#exchanges.get(marker);
    const revokedAt = this.#revokedAt.get(charge?.key ?? "");
    if (exchange !== undefined && revokedAt !== undefined && exchange.startedAt > revokedAt + 1_000)
      this.fault(`${marker} came more than a second after its key was revoked`);
    this.#checkParallel(charge?.key ?? "");
  }

  #checkParallel(name: string): void {
    const limit = this.#disk.look.keys().find(({ id }) => id === name)?.limits.parallel ?? null;
    if (limit === null) return;
    const running = [...(this.#run?.instance?.running ?? [])].filter(
      (exchange) => exchange.ended === null && this.#sent.has(exchange.id),
    );
    const ofKey = running.filter((exchange) => this.#disk.look.charge(exchange.id)?.key === name);
    if (ofKey.length > limit) this.fault(`${ofKey.length} requests of ${name} run at once, and ${limit} may`);
  }

  /** Messages of a target go in their order, each until it is delivered or given up, and never again. */
  #delivering(id: string): void {
    const first = this.#disk.look.messages().find(({ state }) => state === "waiting");
    if (first?.id !== id) this.fault(`message ${id} is sent, and the first that waits is ${first?.id ?? "none"}`);
  }

  /** Whatever runs comes to its end, on a machine on which nothing goes wrong any more. */
  async #calmDown(): Promise<void> {
    this.#isCalm = true;
    this.#world.note("calm");
    const until = this.#world.elapsedMs + patienceMs;
    const goOn = async (isDone: () => boolean): Promise<boolean> => {
      while (!isDone())
        if (this.#faults.length > 0 || this.#world.elapsedMs > until || !(await this.#step())) return false;
      return true;
    };
    if (!(await goOn(() => this.#toCome === 0 && this.#run?.instance !== undefined && !this.#run.isDraining)))
      return this.fault("it does not start any more");
    const run = this.#run;
    if (run?.instance === undefined) return;
    const { instance } = run;
    let isSettled = false;
    void instance.settled().then(() => (isSettled = true));
    if (!(await goOn(() => isSettled && !this.#isPending))) {
      return this.fault(`not settled after ${patienceMs} ms: ${this.#disk.look.pendingIds().join(", ")}`);
    }
    let isTold = false;
    void instance.alerts.evaluate().then(() => (isTold = true));
    if (!(await goOn(() => isTold && this.#disk.look.messages().every(({ state }) => state !== "waiting"))))
      return this.fault("messages wait for ever");
    run.isDraining = true;
    let isDrained = false;
    void instance.drain().then(() => (isDrained = true));
    if (!(await goOn(() => isDrained))) this.fault("it does not end");
  }

  /** True if anything is left that a charge waits for. */
  get #isPending(): boolean {
    return this.#disk.look.pendingIds().length > 0;
  }

  /** The price of another model, where the proxy has read that it answered. */
  #servedPrice(id: string, charge: Charge | undefined): PinnedPrice | undefined {
    const last = this.#gateway.books.get(id)?.at(-1);
    return charge?.priceId != null && last?.isServedRead === true
      ? priceBeside(charge.priceId, last.served)
      : undefined;
  }

  #pricesInForce(id: string, charge: Charge | undefined): ReadonlySet<string> {
    const ids = new Set<string>();
    if (charge === undefined) return ids;
    const last = this.#sent.get(id) ?? -1;
    for (let edition = this.#came.get(id) ?? 0; edition <= last; edition++) {
      const catalogue = editionOf(edition);
      const found =
        charge.kind === "task"
          ? catalogue.findTask(charge.model, "video", charge.at)
          : catalogue.find(charge.model, charge.at);
      if (found?.price != null) ids.add(found.price.id);
    }
    return ids;
  }

  /** The marks that a commit left behind. */
  #noteMarks(commands: readonly Command[], { outcomes }: BatchResult): void {
    commands.forEach((command, index) => {
      const outcome = outcomes[index];
      if (command[0] !== "streams" || outcome?.kind !== "done") return;
      const { marks } = outcome.reply as Replies["streams"];
      const names = new Set(marks.map(({ key, model }) => `${key} ${model}`));
      for (const name of this.#markedSince.keys()) if (!names.has(name)) this.#markedSince.delete(name);
      for (const name of names) {
        this.#everMarked.add(name);
        if (!this.#markedSince.has(name)) this.#markedSince.set(name, this.#world.elapsedMs);
      }
    });
  }

  /** A burst under a slice marks its model, and a second after a mark nothing is held by slices. */
  #burstFaults({ exchange, charge, generations, crashed }: Case): string[] {
    if (charge?.basis?.by !== "slice") return [];
    const faults: string[] = [];
    const cameAt = this.#cameAt.get(exchange.id) ?? 0;
    for (const key of [charge.key, everyKey]) {
      const since = this.#markedSince.get(`${key} ${charge.model}`) ?? Infinity;
      if (cameAt > since + 1_000)
        faults.push(`${exchange.id}: held by a slice, ${cameAt - since} ms after ${charge.model} was marked`);
    }
    const { commits, slowClients, sliceTokens } = this.#plan;
    const last = generations.at(-1);
    const isBurst = last !== undefined && last.longestRead > Math.max(256, (sliceTokens * last.choices) / 4);
    const isNoted = this.#everMarked.has(`${charge.key} ${charge.model}`);
    if (isBurst && !isNoted && !crashed && commits === soundCommits && slowClients === 0)
      faults.push(`${exchange.id}: ${last.longestRead} tokens came at once under a slice, and nothing is marked`);
    return faults;
  }

  async #audit(): Promise<void> {
    this.#isAudit = true;
    const { look } = this.#disk;
    for (const exchange of this.#exchanges.values()) {
      const charge = look.charge(exchange.id);
      const about: Case = {
        exchange,
        charge,
        price: charge?.priceId == null ? undefined : look.price(charge.priceId),
        servedPrice: this.#servedPrice(exchange.id, charge),
        pricesInForce: this.#pricesInForce(exchange.id, charge),
        generations: this.#gateway.books.get(exchange.id) ?? [],
        taskUnits: this.#gateway.tasks.billed(exchange.id),
        isBound: (taskId) => look.task(taskId)?.charge === exchange.id,
        isOfTask: look.isOfTask(exchange.id),
        wasSent: this.#sent.has(exchange.id),
        crashed: this.#crashed.has(exchange.owner) || this.#left.has(exchange.id),
      };
      for (const fault of [...faultsOf(about), ...this.#burstFaults(about)]) this.fault(fault);
    }
    for (const { id, state } of look.messages()) {
      if (state === "delivered" && !this.#receiver.received.has(id))
        this.fault(`message ${id} is delivered, and no one received it`);
    }
    const { ledger } = this.#disk.beside(this.#calendar);
    const { differences } = await ledger.verify();
    for (const { kind, id, expected, found } of differences)
      this.fault(`verify: ${kind} ${id}: ${expected} expected, ${found} found`);
    const pendingAlerts = await ledger.windowsToAlert(this.#world.now, 100);
    if (pendingAlerts.length > 0)
      this.fault(
        `no alert was sent for ${pendingAlerts.map(({ budget, subject }) => `${budget.id} ${subject}`).join(", ")}`,
      );
  }
}

const creation = "/api/v1/task";

function isCreation(path: string): boolean {
  return path === creation || path === familyCreation;
}
