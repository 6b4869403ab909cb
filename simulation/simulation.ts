import { createHash } from "node:crypto";
import type { Settings } from "../src/config/settings.ts";
import { noRateLimits, type RateLimits } from "../src/core/rate-limits.ts";
import { createCredential } from "../src/wire/run-credential.ts";
import { everyKey } from "../src/core/slices.ts";
import type { BatchResult, Command } from "../src/ledger/commands.ts";
import { calendarOf } from "../src/platform/clock.ts";
import type { Charge } from "../src/core/charge.ts";
import type { Calendar } from "../src/ports/calendar.ts";
import type { BurstMarksResult } from "../src/ports/ledger.ts";
import { AlertChecks } from "./alert-checks.ts";
import { faultsOf, type AuditedRequest } from "./audit.ts";
import { LedgerChecks } from "./ledger-checks.ts";
import { SimulatedExchange } from "./client.ts";
import { Commits, faultlessCommits } from "./commits.ts";
import { Disk, type OnWritten } from "./disk.ts";
import { isMessages, SimulatedGateway } from "./gateway.ts";
import { startInstance, type Instance } from "./instance.ts";
import {
  agentBudget,
  agentHeaders,
  bodyOf,
  budgetOf,
  raiseOf,
  raisedCaller,
  changeKinds,
  keyNames,
  behaviorOf,
  messageBehaviorOf,
  messageBodyOf,
  planOf,
  removalOf,
  secretOf,
  session,
  taskBodyOf,
  teams,
  toolPolicies,
  zones,
  type Change,
  type Plan,
  senderHeaders,
} from "./plan.ts";
import { catalogueOf, family, familyCreation, idOf, listed, pricesAfter, taskModel } from "./prices.ts";
import { settingsOf } from "./settings.ts";
import { tariffOf, type Prices } from "./tariffs.ts";
import { simulatedCounter } from "./tokens.ts";
import { Receiver } from "./webhook.ts";
import { outside, World, type Owner } from "./world.ts";

export interface RunOptions {
  readonly seed: string;
  readonly traced?: boolean;
  /** Crashes at this step, in addition to the seed's own events. */
  readonly crashAt?: number;
}

export interface RunResult {
  readonly seed: string;
  readonly steps: number;
  readonly charges: number;
  readonly crashes: number;
  /** Descriptions of the faults. Each begins with the step at which the fault was noticed. */
  readonly faults: readonly string[];
  readonly trace: readonly string[] | null;
}

/** Longest simulated time until everything has finished after the last fault, in milliseconds. */
const finishMsMax = 4 * 3_600_000;
const stepsMax = 200_000;
/** Lifetime of the session in milliseconds; longer than any run. */
const sessionMs = 10_000 * 86_400_000;

/** Runs the simulation of one seed. */
export async function simulate(options: RunOptions): Promise<RunResult> {
  const simulation = new Simulation(options);
  const onRejection = (error: unknown) =>
    simulation.fault(`unhandled rejection: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`);
  process.on("unhandledRejection", onRejection);
  try {
    await simulation.run();
  } catch (error) {
    simulation.fault(error instanceof Error ? (error.stack ?? error.message) : String(error));
  } finally {
    process.off("unhandledRejection", onRejection);
  }
  return simulation.result;
}

/** One run of the proxy, from its start to its exit or crash. */
interface ProxyRun {
  readonly owner: Owner;
  readonly calendar: Calendar;
  readonly alertChecks: AlertChecks;
  /** Undefined until the start is complete. */
  instance: Instance | undefined;
  isDraining: boolean;
}

class Simulation {
  readonly #options: RunOptions;
  readonly #world: World;
  readonly #plan: Plan;
  /**
   * True if the user has price files, which change the shipped prices, and if clients spell names of models in several
   * ways. Does not depend on chance, so that the other runs stay as they were.
   */
  readonly #hasOwnPrices: boolean;
  /** True if agents send messages in place of most chats. Does not depend on chance either. */
  readonly #hasAgents: boolean;
  readonly #disk = new Disk();
  readonly #commits: Commits;
  readonly #gateway: SimulatedGateway;
  readonly #receiver: Receiver;
  readonly #ledgerChecks: LedgerChecks;
  readonly #settings: Settings;
  readonly #exchanges = new Map<string, SimulatedExchange>();
  /** Credential of alice's session of `farebox run`. */
  #credential = "";
  /** Number of budgets that changes have set so far. Every second one of these budgets is raised. */
  #raisableBudgets = 0;
  /** Edition of the prices in force when each request arrived, and when it was sent to the gateway. */
  readonly #editionAtArrival = new Map<string, number>();
  readonly #editionAtSending = new Map<string, number>();
  /** Elapsed milliseconds at which each request arrived. */
  readonly #arrivedAt = new Map<string, number>();
  /** Time at which a model was marked for a key, in elapsed milliseconds, by `key model`. */
  readonly #markedSince = new Map<string, number>();
  /** All `key model` pairs that were ever marked. */
  readonly #everMarked = new Set<string>();
  readonly #crashed = new Set<Owner>();
  /** Charges that were still pending when a run of the proxy exited. */
  readonly #leftPending = new Set<string>();
  readonly #revokedAt = new Map<string, number>();
  readonly #faults: string[] = [];
  #calendar: Calendar;
  #proxyRun: ProxyRun | undefined;
  #proxyRuns = 0;
  #edition = 0;
  #messageIds = 0;
  /** Number of requests that have not been sent yet. */
  #requestsLeft = 0;
  /** Number of CLI commands that run next to the proxy. */
  #commandsRunning = 0;
  /** True once no more faults occur, and everything can finish. */
  #isFaultFree = false;
  #isAuditing = false;
  /** Start of the last evaluation of the alerts. */
  #evaluatedAt = 0;

  constructor(options: RunOptions) {
    this.#options = options;
    const world = new World(options.seed, { startsAt: 0, traced: options.traced ?? false });
    this.#world = world;
    const plan = planOf(world.chance);
    this.#plan = plan;
    this.#hasOwnPrices = Number(options.seed) % 5 < 2;
    this.#hasAgents = [1, 4, 9].includes(Number(options.seed) % 10);
    // Begin with each edition equally often.
    if (this.#hasOwnPrices) this.#edition = Math.floor(Number(options.seed) / 5) % 3;
    world.shiftWallClock(plan.startsAt);
    this.#calendar = calendarOf(plan.zone);
    this.#settings = settingsOf(plan);
    this.#ledgerChecks = new LedgerChecks(
      this.#disk.durable,
      () => this.#calendar,
      (what) => this.fault(what),
    );
    this.#commits = new Commits(world, () => (this.#isFaultFree ? faultlessCommits : plan.commits), this.#onWritten);
    this.#gateway = new SimulatedGateway({
      world,
      behavior: (path, model) => {
        const draw = isMessages(path) ? messageBehaviorOf : behaviorOf;
        return draw(world.chance, this.#isFaultFree ? 0 : plan.gatewayFaults, idOf(model));
      },
      refusesUsage: plan.refusesUsage,
      bursts: plan.bursts,
      balance: () => (1 + world.chance.next()).toFixed(6),
      onSend: (marker) => this.#onSend(marker),
    });
    this.#receiver = new Receiver({
      world,
      failing: () => (this.#isFaultFree ? 0 : plan.failingWebhooks),
      onSend: (id) => this.#checkOrder(id),
    });
  }

  get result(): RunResult {
    const { seed } = this.#options;
    return {
      seed,
      steps: this.#world.steps,
      charges: this.#ledgerChecks.charges.size,
      crashes: this.#crashed.size,
      faults: this.#faults,
      trace: this.#world.trace,
    };
  }

  fault(what: string): void {
    // Later faults may only be consequences of the first.
    if (this.#faults.length > 0 && !this.#isAuditing) return;
    this.#faults.push(`step ${this.#world.steps}: ${what}`);
    this.#world.note(`FAULT: ${what}`);
  }

  async run(): Promise<void> {
    await this.#prepare();
    this.#start();
    this.#schedule();
    const { crashAt } = this.#options;
    const { crashes, requestsMs, faultsMs } = this.#plan;
    const world = this.#world;
    const isOver = () => world.elapsedMs > requestsMs + faultsMs || this.#faults.length > 0;
    while (!isOver() && (await this.#step())) {
      const isDue = crashAt === undefined ? world.chance.happens(crashes) : world.steps === crashAt;
      if (isDue) await this.#crash();
    }
    if (this.#faults.length > 0) return;
    await this.#finish();
    if (this.#faults.length === 0) await this.#audit();
  }

  async #step(): Promise<boolean> {
    if (this.#world.steps >= stepsMax) {
      this.fault(`the run does not end within ${stepsMax} steps`);
      return false;
    }
    return this.#world.step();
  }

  /** Creates keys, a session and budgets before the first start. */
  async #prepare(): Promise<void> {
    const { chance, now } = this.#world;
    const { ledger, keys, sessions } = this.#disk.openForCommand(this.#calendar, this.#onWritten);
    for (const name of keyNames) {
      const limits: RateLimits = chance.happens(0.3)
        ? { rpm: chance.between(1, 6), tpm: chance.happens(0.3) ? 2_000 : null, parallel: chance.between(1, 3) }
        : noRateLimits;
      await keys.create({
        id: name,
        name,
        team: teams[name] ?? null,
        digest: createHash("sha256").update(secretOf(name)).digest("hex"),
        models: this.#hasOwnPrices && name === listedKey ? listed.patterns : null,
        limits,
        outputCap: null,
        hostedTools: this.#hasAgents ? (toolPolicies[name] ?? null) : null,
        labels: name === raisedCaller.key ? raisedCaller.labels : {},
        tags: {},
        user: null,
        requires: [],
        createdAt: now,
        expiresAt: null,
        revokedAt: null,
        suspendedAt: null,
        rotatedAt: null,
        previous: null,
      });
    }
    const created = {
      ...session,
      secret: null,
      tags: {},
      budget: null,
      createdAt: now,
      expiresAt: now + sessionMs,
      endedAt: null,
    };
    await sessions.create(created, null);
    this.#credential = createCredential(created, await sessions.secret());
    for (let count = chance.below(4); count > 0; count--) await ledger.setBudget(budgetOf(chance), now);
    if (this.#hasAgents && chance.happens(0.5)) await ledger.setBudget(agentBudget, now);
  }

  #start(): void {
    const world = this.#world;
    const owner = ++this.#proxyRuns;
    const calendar = this.#calendar;
    const run: ProxyRun = {
      owner,
      calendar,
      alertChecks: new AlertChecks(),
      instance: undefined,
      isDraining: false,
    };
    this.#proxyRun = run;
    world.note(`run ${owner} starts, in ${calendar.timeZone}`);
    const clock = world.clock(owner);
    const store = this.#disk.open({
      calendar,
      clock,
      through: (apply) => this.#commits.channel(owner, apply),
      afterTurn: (callback) => world.after(owner, 0, "a turn of the event loop ends", callback),
      onChanged: (report) =>
        world.after(owner, world.chance.between(0, 1_000), "the proxy notices a change of keys or budgets", report),
    });
    const starting = startInstance({
      world,
      owner,
      calendar,
      store,
      settings: this.#settings,
      gateway: this.#gateway.portFor(owner, clock),
      tokens: simulatedCounter(world, owner, () => (this.#isFaultFree ? 0 : this.#plan.busyCounter)),
      catalogue: () => catalogueOf(this.#pricesOf(owner, this.#edition)),
      sender: this.#receiver.sender(owner),
      newId: () => `m${++this.#messageIds}`,
      onEvaluated: (at, windows) => run.alertChecks.onEvaluated(at, windows),
      onError: (message, error) => this.#onErrorLogged(message, error),
    });
    void starting.then(
      (instance) => {
        run.instance = instance;
        world.note(`run ${owner} serves`);
      },
      (error: unknown) => {
        world.note(`run ${owner} could not start: ${String(error)}`);
        this.#end(run);
        world.after(outside, 1_000, "the proxy is started again", () => this.#start());
      },
    );
  }

  /** Reports a logged error as a fault, unless a failing commit explains it. */
  #onErrorLogged(message: string, error: unknown): void {
    const isExpected =
      message.startsWith("a charge could not be settled") || /could not be written/.test(String(error));
    if (isExpected && !this.#isFaultFree) return;
    this.fault(`logged: ${message} ${error instanceof Error ? (error.stack ?? error.message) : ""}`);
  }

  #end(run: ProxyRun): void {
    this.#world.drop(run.owner);
    this.#gateway.disconnect(run.owner);
    if (this.#proxyRun === run) this.#proxyRun = undefined;
  }

  /** Crashes the proxy: discards everything in memory, and schedules the next start. */
  async #crash(): Promise<void> {
    const run = this.#proxyRun;
    if (run === undefined) return;
    const world = this.#world;
    world.note(`CRASH of run ${run.owner}`);
    this.#crashed.add(run.owner);
    for (const exchange of run.instance?.running ?? []) exchange.onCrash();
    this.#end(run);
    await this.#commits.crash();
    const zone = world.chance.happens(0.2) ? world.chance.pick(zones) : this.#calendar.timeZone;
    world.after(outside, world.chance.between(0, 2_000), "the proxy is started again after the crash", () =>
      this.#startInZone(zone),
    );
  }

  #startInZone(zone: string): void {
    if (this.#proxyRun !== undefined) return;
    if (zone !== this.#calendar.timeZone) {
      this.#calendar = calendarOf(zone);
      this.#start();
      this.#ledgerChecks.onZoneChange(this.#world.now);
    } else this.#start();
  }

  #schedule(): void {
    const { chance } = this.#world;
    const { requests, requestsMs, changes } = this.#plan;
    this.#requestsLeft = requests;
    for (let count = 1; count <= requests; count++)
      this.#world.after(outside, chance.below(requestsMs), `client ${count} sends a request`, () =>
        this.#sendRequest(),
      );
    for (const kind of changeKinds) {
      for (let count = changes[kind]; count > 0; count--)
        this.#world.after(outside, chance.below(requestsMs), `a change: ${kind}`, () => this.#change(kind));
    }
  }

  #sendRequest(): void {
    const world = this.#world;
    const { chance } = world;
    const { instance, isDraining = true } = this.#proxyRun ?? {};
    if (instance === undefined || isDraining)
      return void world.after(outside, 200, "a client retries to connect", () => this.#sendRequest());
    this.#requestsLeft--;
    const id = `r${this.#exchanges.size + 1}`;
    const name = chance.pick(keyNames);
    const isInSession = name === session.key && this.#exchanges.size % 3 === 0;
    const [method, path] = this.#drawRequest(name);
    const spelling = this.#hasOwnPrices ? this.#exchanges.size : 0;
    const body = isCreation(path)
      ? taskBodyOf(chance, id, path === familyCreation)
      : isMessages(path)
        ? messageBodyOf(chance, id, this.#plan, spelling)
        : bodyOf(chance, id, { ...this.#plan, hasModels: this.#exchanges.size % 5 === 2, spelling });
    const exchange = new SimulatedExchange({
      world,
      id,
      method,
      path,
      owner: instance.owner,
      key: isInSession ? this.#credential : secretOf(name),
      body,
      slow: this.#plan.slowClients,
      isPassed: this.#plan.streamUsage === "pass" || isMessages(path),
      senderHeaders: [
        ...senderHeaders(this.#exchanges.size),
        ...(isMessages(path) ? agentHeaders(this.#exchanges.size) : []),
      ],
      onFault: (what) => this.fault(what),
      onRefusal: ({ refusal }) => instance.alerts.refused(refusal),
    });
    world.note(`${id}: ${name} sends ${method} ${path}`);
    this.#exchanges.set(id, exchange);
    this.#editionAtArrival.set(id, this.#edition);
    this.#arrivedAt.set(id, world.elapsedMs);
    if (chance.happens(this.#plan.leavingClients))
      world.after(outside, chance.pick([0, 5, 100, 3_000]), `${id}: the client leaves`, () => exchange.leave());
    instance.handle(exchange);
  }

  /** Draws a client's next request: chats, new tasks, or reads and cancellations of its own tasks. */
  #drawRequest(name: string): readonly [method: string, path: string] {
    const { chance } = this.#world;
    const own = [...this.#exchanges.values()].flatMap(({ path, key, body }) =>
      isCreation(path) && key === secretOf(name) ? (/"task_id":"([^"]+)"/.exec(body)?.[1] ?? []) : [],
    );
    const [known] = own;
    // Every second request uses a route of the price files. This is not drawn at random, because old seeds must stay valid.
    const isSecond = this.#exchanges.size % 2 === 1;
    if (known !== undefined && chance.happens(0.5)) {
      const taskId = chance.pick([known, ...own]);
      return chance.happens(0.8)
        ? ["GET", `${isSecond ? family : creation}/${taskId}`]
        : ["DELETE", `${creation}/${taskId}`];
    }
    const roll = chance.next();
    if (roll < 0.15) return ["POST", isSecond ? familyCreation : creation];
    const isMessage = this.#hasAgents && this.#exchanges.size % 4 !== 2;
    return roll < 0.85
      ? ["POST", isMessage ? "/v1/messages" : "/v1/chat/completions"]
      : ["GET", chance.pick(["/account/info", "/v1/farebox/me"])];
  }

  #change(kind: Change): void {
    const world = this.#world;
    const { chance, now } = world;
    const store = this.#disk.openForCommand(this.#calendar, this.#onWritten, (callback) =>
      world.soon(outside, "a command writes", callback),
    );
    switch (kind) {
      case "clock": {
        const byMs = chance.pick([-7_200_000, -60_000, -1_000, 1_000, 900_000, 86_400_000]);
        world.shiftWallClock(byMs);
        return world.note(`the clock is set by ${byMs} ms`);
      }
      case "budget": {
        const budget = budgetOf(chance);
        void this.#command(async () => {
          const set = await store.ledger.setBudget(budget, now);
          const raise = raiseOf(set, this.#raisableBudgets++, this.#calendar, now);
          if (raise !== null) await store.ledger.raiseBudget(raise, now);
        });
        return world.note(`budget ${JSON.stringify(budget.scope)} ${budget.period} is ${budget.limit} ${budget.mode}`);
      }
      case "removal": {
        const { scope, period } = removalOf(chance);
        void this.#command(() => store.ledger.removeBudget(scope, period, now));
        return world.note(`budget ${scope}/${period} is removed`);
      }
      case "prices":
        this.#edition++;
        return;
      case "revocation": {
        const name = chance.pick(keyNames);
        void this.#command(async () => {
          await store.keys.revoke(name, now);
          if (!this.#revokedAt.has(name)) this.#revokedAt.set(name, world.elapsedMs);
        });
        return world.note(`${name} is revoked`);
      }
      case "restart":
        void this.#restart(chance.happens(0.5) ? chance.pick(zones) : this.#calendar.timeZone);
    }
  }

  /** Runs a CLI command next to the proxy. Alerts about its changes are due only after it has ended. */
  async #command(run: () => Promise<unknown>): Promise<void> {
    this.#commandsRunning++;
    await run();
    this.#commandsRunning--;
  }

  async #restart(zone: string): Promise<void> {
    const run = this.#proxyRun;
    if (run?.instance === undefined || run.isDraining) return;
    const { instance } = run;
    run.isDraining = true;
    this.#world.note(`run ${run.owner} drains`);
    await instance.drain();
    this.#world.note(`run ${run.owner} has ended`);
    this.#noteLeftPending();
    this.#end(run);
    this.#startInZone(zone);
  }

  /** Notes the charges that are still pending. The next run settles them as after a crash. */
  #noteLeftPending(): void {
    for (const id of this.#disk.durable.pendingIds()) {
      // A stored task continues at the gateway.
      if (this.#disk.durable.isOfTask(id)) continue;
      if (this.#plan.commits === faultlessCommits) this.fault(`${id} is pending after the proxy has exited`);
      this.#leftPending.add(id);
    }
  }

  /** Checks a request when its first byte is sent to the gateway: its hold must be durable and pending. */
  #onSend(marker: string): void {
    if (!this.#editionAtSending.has(marker)) this.#editionAtSending.set(marker, this.#edition);
    const charge = this.#disk.durable.charge(marker);
    if (charge?.state !== "pending")
      this.fault(`${marker} is sent to the gateway, but its charge is ${charge?.state ?? "missing"}`);
    const exchange = this.#exchanges.get(marker);
    const revokedAt = this.#revokedAt.get(charge?.key ?? "");
    if (exchange !== undefined && revokedAt !== undefined && exchange.startedAt > revokedAt + 1_000)
      this.fault(`${marker} is sent, but arrived more than a second after its key was revoked`);
    this.#checkParallel(charge?.key ?? "");
  }

  #checkParallel(name: string): void {
    const limit = this.#disk.durable.keys().find(({ id }) => id === name)?.limits.parallel ?? null;
    if (limit === null) return;
    const running = [...(this.#proxyRun?.instance?.running ?? [])].filter(
      (exchange) => exchange.ended === null && this.#editionAtSending.has(exchange.id),
    );
    const ofKey = running.filter((exchange) => this.#disk.durable.charge(exchange.id)?.key === name);
    if (ofKey.length > limit) this.fault(`${ofKey.length} requests of ${name} run in parallel; at most ${limit} may`);
  }

  /** Checks that messages are sent in order, and each only until it is delivered or abandoned. */
  #checkOrder(id: string): void {
    const first = this.#disk.durable.messages().find(({ state }) => state === "waiting");
    if (first?.id !== id) this.fault(`message ${id} is sent, but the first waiting message is ${first?.id ?? "none"}`);
  }

  /** Stops all faults, and runs until everything is settled, every alert is delivered and the proxy exits. */
  async #finish(): Promise<void> {
    this.#isFaultFree = true;
    this.#world.note("no more faults");
    const deadline = this.#world.elapsedMs + finishMsMax;
    const runUntil = async (isDone: () => boolean): Promise<boolean> => {
      while (!isDone())
        if (this.#faults.length > 0 || this.#world.elapsedMs > deadline || !(await this.#step())) return false;
      return true;
    };
    if (
      !(await runUntil(
        () => this.#requestsLeft === 0 && this.#proxyRun?.instance !== undefined && !this.#proxyRun.isDraining,
      ))
    )
      return this.fault("the proxy does not start");
    const run = this.#proxyRun;
    if (run?.instance === undefined) return;
    const { instance } = run;
    let isSettled = false;
    void instance.settled().then(() => (isSettled = true));
    if (!(await runUntil(() => isSettled && !this.#hasPending && this.#commandsRunning === 0))) {
      return this.fault(`not settled after ${finishMsMax} ms: ${this.#disk.durable.pendingIds().join(", ")}`);
    }
    let isEvaluated = false;
    this.#evaluatedAt = this.#world.now;
    void instance.alerts.evaluate().then(() => (isEvaluated = true));
    if (!(await runUntil(() => isEvaluated && this.#disk.durable.messages().every(({ state }) => state !== "waiting"))))
      return this.fault("some messages are never delivered");
    run.isDraining = true;
    let isDrained = false;
    void instance.drain().then(() => (isDrained = true));
    if (!(await runUntil(() => isDrained))) this.fault("the proxy does not exit");
  }

  /** True if a charge is pending. */
  get #hasPending(): boolean {
    return this.#disk.durable.pendingIds().length > 0;
  }

  /** Returns the prices of a run of the proxy. With own price files, the preset changes with each run. */
  #pricesOf(owner: Owner, edition: number): Prices {
    const isOwn = this.#hasOwnPrices;
    return pricesAfter(edition, { preset: isOwn && owner % 2 === 0 ? "official" : "piapi", isOwn });
  }

  /** Returns the prices in force between a request's arrival and its forwarding, oldest first. */
  #pricesInForce({ id, owner }: SimulatedExchange): Prices[] {
    const [first = 0, last = this.#edition] = [this.#editionAtArrival.get(id), this.#editionAtSending.get(id)];
    return Array.from({ length: last - first + 1 }, (_, index) => this.#pricesOf(owner, first + index));
  }

  /** Returns the price of a charge, and that of another model that answered if the proxy has read its name. */
  #pricesOfCharge(
    exchange: SimulatedExchange,
    charge: Charge | undefined,
  ): Pick<AuditedRequest, "wasInForce" | "tariff" | "served" | "tariffOf"> {
    const unpriced = { tariff: undefined, served: undefined, tariffOf: noTariff };
    if (charge?.priceId == null) return { wasInForce: true, ...unpriced };
    const { model, at } = charge;
    const prices = this.#pricesInForce(exchange).find((each) => {
      const catalogue = catalogueOf(each);
      const found = charge.kind === "task" ? catalogue.findTask(model, "video", at) : catalogue.find(idOf(model), at);
      return found?.price?.id === charge.priceId;
    });
    if (prices === undefined) return { wasInForce: false, ...unpriced };
    const last = this.#gateway.generations.get(exchange.id)?.at(-1);
    const priceId = last?.isServedRead === true ? catalogueOf(prices).find(last.served, at)?.price?.id : undefined;
    return {
      wasInForce: true,
      tariff: charge.kind === "task" ? undefined : tariffOf(idOf(model), prices, at),
      tariffOf: (other) => tariffOf(other, prices, at),
      served:
        last === undefined || priceId === undefined
          ? undefined
          : { priceId, tariff: tariffOf(last.served, prices, at) },
    };
  }

  readonly #onWritten: OnWritten = (commands, result) => {
    this.#ledgerChecks.onWritten(commands, result);
    this.#noteMarks(commands, result);
  };

  /** Notes which models are marked after a commit. */
  #noteMarks(commands: readonly Command[], { outcomes }: BatchResult): void {
    commands.forEach((command, index) => {
      const outcome = outcomes[index];
      if (command[1] !== "streamBursts.burstMarks" || outcome?.kind !== "done") return;
      const { marks } = outcome.reply as Extract<BurstMarksResult, { ok: true }>;
      const names = new Set(marks.map(({ key, model }) => `${key} ${model}`));
      for (const name of this.#markedSince.keys()) if (!names.has(name)) this.#markedSince.delete(name);
      for (const name of names) {
        this.#everMarked.add(name);
        if (!this.#markedSince.has(name)) this.#markedSince.set(name, this.#world.elapsedMs);
      }
    });
  }

  /** Checks that a burst marks its model, and that no hold is a slice more than a second after a mark. */
  #burstFaults({ exchange, charge, generations, crashed }: AuditedRequest): string[] {
    if (charge?.basis?.by !== "slice") return [];
    const faults: string[] = [];
    const arrivedAt = this.#arrivedAt.get(exchange.id) ?? 0;
    for (const key of [charge.key, everyKey]) {
      const since = this.#markedSince.get(`${key} ${idOf(charge.model)}`) ?? Infinity;
      if (arrivedAt > since + 1_000)
        faults.push(`${exchange.id}: its hold is a slice, ${arrivedAt - since} ms after ${charge.model} was marked`);
    }
    const { commits, slowClients, sliceTokens } = this.#plan;
    const last = generations.at(-1);
    const isBurst = last !== undefined && last.longestRead > Math.max(256, (sliceTokens * last.choices) / 4);
    const isNoted = this.#everMarked.has(`${charge.key} ${idOf(charge.model)}`);
    if (isBurst && !isNoted && !crashed && commits === faultlessCommits && slowClients === 0)
      faults.push(
        `${exchange.id}: ${last.longestRead} tokens arrived at once under a slice, but the model is not marked`,
      );
    return faults;
  }

  async #audit(): Promise<void> {
    this.#isAuditing = true;
    const { durable } = this.#disk;
    for (const exchange of this.#exchanges.values()) {
      const charge = durable.charge(exchange.id);
      const audited: AuditedRequest = {
        exchange,
        charge,
        ...this.#pricesOfCharge(exchange, charge),
        isPriceStored: charge?.priceId == null || durable.price(charge.priceId) !== undefined,
        isPermitted: !this.#hasOwnPrices || exchange.key !== secretOf(listedKey) || isListed(modelsOf(exchange)),
        generations: this.#gateway.generations.get(exchange.id) ?? [],
        taskUnits: this.#gateway.tasks.billed(exchange.id),
        isBound: (taskId) => durable.task(taskId)?.charge === exchange.id,
        isOfTask: durable.isOfTask(exchange.id),
        wasSent: this.#editionAtSending.has(exchange.id),
        crashed: this.#crashed.has(exchange.owner) || this.#leftPending.has(exchange.id),
      };
      for (const fault of [...faultsOf(audited), ...this.#burstFaults(audited)]) this.fault(fault);
    }
    for (const { id, state } of durable.messages()) {
      if (state === "delivered" && !this.#receiver.received.has(id))
        this.fault(`message ${id} is marked as delivered, but was never received`);
    }
    const { ledger } = this.#disk.openForCommand(this.#calendar, this.#onWritten);
    const { differences } = await ledger.verify();
    for (const { kind, id, expected, found } of differences)
      this.fault(`verify: ${kind} ${id}: ${expected} expected, ${found} found`);
    // A window may have begun or a raise may have ended since the last evaluation. The next evaluation would send their alerts.
    const pendingAlerts = await ledger.windowsToAlert(this.#evaluatedAt, 100);
    if (pendingAlerts.length > 0)
      this.fault(
        `no alert was sent for ${pendingAlerts.map(({ budget, subject }) => `${budget.id} ${subject}`).join(", ")}`,
      );
    const keys = new Set(durable.messages().map(({ dedupeKey }) => dedupeKey));
    for (const name of (await this.#proxyRun?.alertChecks.missing(ledger, keys)) ?? [])
      this.fault(`an alert was found for ${name}, but never sent`);
  }
}

function noTariff(model: string): never {
  throw new Error(`a charge without a price has no tariff of ${model}`);
}

/** Key that may use only some models. */
const listedKey = "carol";

/** Returns the names of the models that a request asks for. */
function modelsOf({ path, modelsNamed }: SimulatedExchange): readonly string[] {
  if (isCreation(path)) return [taskModel];
  return path === "/v1/chat/completions" || isMessages(path) ? modelsNamed : [];
}

function isListed(models: readonly string[]): boolean {
  return models.every((model) => listed.ids.some((id) => id === idOf(model)));
}

const creation = "/api/v1/task";

function isCreation(path: string): boolean {
  return path === creation || path === familyCreation;
}
