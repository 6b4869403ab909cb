// cspell:ignore gomodel bifrost
import { Child, type ChildParams, type ProgramName } from "./child.ts";
import type { LedgerFigures, ProcessFigures } from "./messages.ts";
import { findOther, otherNames, type OtherName } from "./others.ts";

/** Names of all targets. `undici` is Farebox with that engine. */
export const targetNames = ["direct", "bare", "farebox", "undici", ...otherNames] as const;
export type TargetName = (typeof targetNames)[number];

/** As long as a real key, because Farebox searches the gateway's answers for it. */
const gatewayKey = `sk-bench-${"0123456789abcdef".repeat(3)}`;

/** Default parameters of a process. */
export const defaultParams: ChildParams = {
  gatewayUrl: "",
  gatewayKey,
  chunks: 0,
  chunkMs: 0,
  engine: "http-proxy-middleware",
  program: "",
  database: "",
  keys: 0,
  hasBudget: true,
  profile: null,
};

/** Recipient of the generated load: the gateway itself, or a proxy in front of it. */
export interface Target<Name extends string = string> {
  readonly name: Name;
  readonly port: number;
  readonly key: string;
  /** Keys of the requests, in turn. */
  readonly keys: readonly string[];
  /** Additional headers that the target requires. */
  readonly headers: readonly string[];
  /** True if the answers must equal the gateway's byte for byte; false if only the text and the usage must match. */
  readonly passesBytes: boolean;
  /** Length of the correct answer in bytes. `checkAnswers` sets it. */
  answerBytes: number;
  /** Bytes by which an answer's length may differ. Bifrost writes milliseconds into each chunk. */
  readonly toleratedBytes: number;
  /** Number of requests sent to the target. The ledger must have the same number of charges. */
  sent: number;
  /** Returns the CPU and memory; null for the gateway alone. */
  figures(): Promise<ProcessFigures | null>;
  /** Returns the figures of the ledger; null if the target has no ledger. */
  ledger(): Promise<LedgerFigures | null>;
}

interface Targets extends AsyncDisposable {
  readonly all: readonly Target<TargetName>[];
}

/** Returns the installed targets, and for each missing target a sentence that says how to install it. */
export function findTargets(
  wanted: readonly TargetName[],
  folder: string,
): { readonly found: readonly FoundTarget[]; readonly missing: readonly string[] } {
  const found: FoundTarget[] = [];
  const missing: string[] = [];
  for (const name of targetNames.filter((each) => wanted.includes(each))) {
    const other = otherNames.find((each) => each === name);
    const program = other === undefined ? { ok: true as const, path: "" } : findOther(other, folder);
    if (program.ok) found.push({ name, path: program.path });
    else missing.push(program.why);
  }
  return { found, missing };
}

export interface FoundTarget {
  readonly name: TargetName;
  /** Path of another program's executable; "" for Farebox, the bare proxy and the gateway. */
  readonly path: string;
}

interface TargetsParams {
  readonly gateway: Extract<ProgramName, "gateway" | "paced-gateway">;
  readonly chunks: number;
  readonly chunkMs: number;
  readonly profile: string | null;
  readonly targets: readonly FoundTarget[];
}

/** Starts a gateway and the proxies in front of it, each in a separate process. */
export async function startTargets({
  gateway: program,
  chunks,
  chunkMs,
  profile,
  targets,
}: TargetsParams): Promise<Targets> {
  await using owned = new AsyncDisposableStack();
  const params = { ...defaultParams, chunks, chunkMs };
  const gateway = owned.use(await Child.start(program, params));
  const gatewayUrl = `http://127.0.0.1:${gateway.port}`;
  const all: Target<TargetName>[] = [];
  for (const { name, path } of targets) {
    const started =
      name === "direct"
        ? gateway
        : owned.use(
            await Child.start(programOf(name), {
              ...params,
              gatewayUrl,
              program: path,
              profile,
              engine: name === "undici" ? "undici" : params.engine,
            }),
          );
    all.push(targetOf(name, started, gatewayUrl));
  }
  const kept = owned.move();
  return { all, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function programOf(name: Exclude<TargetName, "direct">): ProgramName {
  return name === "undici" ? "farebox" : name;
}

/** Targets that rewrite JSON. */
const rewriting: readonly TargetName[] = ["portkey", "litellm", "gomodel", "bifrost"] satisfies readonly OtherName[];

function targetOf(name: TargetName, child: Child, gatewayUrl: string): Target<TargetName> {
  return {
    ...plainTarget(name, child, name === "farebox" || name === "undici"),
    headers: name === "portkey" ? ["x-portkey-provider: openai", `x-portkey-custom-host: ${gatewayUrl}/v1`] : [],
    passesBytes: !rewriting.includes(name),
    toleratedBytes: name === "bifrost" ? 1_024 : 0,
    figures: async () => (name === "direct" ? null : child.query("figures")),
  };
}

/** Returns the target of a process that does not change bytes. */
export function plainTarget<Name extends string>(name: Name, child: Child, hasLedger: boolean): Target<Name> {
  return {
    name,
    port: child.port,
    key: child.key,
    keys: [child.key],
    headers: [],
    passesBytes: true,
    answerBytes: 0,
    toleratedBytes: 0,
    sent: 0,
    figures: () => child.query("figures"),
    ledger: async () => (hasLedger ? child.query("ledger") : null),
  };
}
