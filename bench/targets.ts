import { Child, type ChildParams, type ProgramName } from "./child.ts";
import type { Books, ProcessFigures } from "./messages.ts";
import { findOther, otherNames, type OtherName } from "./others.ts";

/** `undici` is Farebox again, with its other engine. */
export const targetNames = ["direct", "bare", "farebox", "undici", ...otherNames] as const;
export type TargetName = (typeof targetNames)[number];

const gatewayKey = "sk-sandbox";

/** Parameters of a process by default. */
export const defaultParams: ChildParams = {
  gatewayUrl: "",
  gatewayKey,
  chunks: 0,
  chunkMs: 0,
  engine: "http-proxy-middleware",
  program: "",
  database: "",
  keys: 0,
  profile: null,
};

/** Recipient of the generated load: the gateway itself, or a proxy in front of it. */
export interface Target<Name extends string = string> {
  readonly name: Name;
  readonly port: number;
  readonly key: string;
  /** With which its requests are made in turn. */
  readonly keys: readonly string[];
  /** Headers that it must have beside a client's own. */
  readonly headers: readonly string[];
  /** True if its answers are the gateway's byte for byte; else they must mean the same. */
  readonly passesBytes: boolean;
  /** Length of the right answer; known once its answers have been checked. */
  answerBytes: number;
  /** Requests that it has been sent: what its books must agree with. */
  sent: number;
  /** Null where there is no proxy. */
  figures(): Promise<ProcessFigures | null>;
  /** Null where none are kept. */
  books(): Promise<Books | null>;
}

export interface Targets extends AsyncDisposable {
  readonly all: readonly Target<TargetName>[];
}

/** Returns the targets that can be measured, and a sentence for each wanted one that cannot. */
export function findTargets(
  wanted: readonly TargetName[],
  folder: string,
): { readonly found: readonly FoundTarget[]; readonly missing: readonly string[] } {
  const found: FoundTarget[] = [];
  const missing: string[] = [];
  for (const name of targetNames.filter((each) => wanted.includes(each))) {
    const other = otherNames.find((each) => each === name);
    const place = other === undefined ? { ok: true as const, path: "" } : findOther(other, folder);
    if (place.ok) found.push({ name, path: place.path });
    else missing.push(place.why);
  }
  return { found, missing };
}

export interface FoundTarget {
  readonly name: TargetName;
  /** Path of an executable from elsewhere. */
  readonly path: string;
}

export interface TargetsParams {
  readonly gateway: Extract<ProgramName, "gateway" | "paced-gateway">;
  readonly chunks: number;
  readonly chunkMs: number;
  readonly profile: string | null;
  readonly targets: readonly FoundTarget[];
}

/** A gateway and, before it, the proxies: each a process of its own. */
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

/** These rewrite JSON. */
const rewriting: readonly TargetName[] = ["portkey", "litellm"] satisfies readonly OtherName[];

function targetOf(name: TargetName, child: Child, gatewayUrl: string): Target<TargetName> {
  return {
    ...plainTarget(name, child, name === "farebox" || name === "undici"),
    headers: name === "portkey" ? ["x-portkey-provider: openai", `x-portkey-custom-host: ${gatewayUrl}/v1`] : [],
    passesBytes: !rewriting.includes(name),
    figures: async () => (name === "direct" ? null : child.ask("figures")),
  };
}

/** A process that passes bytes; whether it keeps books. */
export function plainTarget<Name extends string>(name: Name, child: Child, keepsBooks: boolean): Target<Name> {
  return {
    name,
    port: child.port,
    key: child.key,
    keys: [child.key],
    headers: [],
    passesBytes: true,
    answerBytes: 0,
    sent: 0,
    figures: () => child.ask("figures"),
    books: async () => (keepsBooks ? child.ask("books") : null),
  };
}
