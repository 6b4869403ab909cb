import { Child, type ProgramName } from "./child.ts";
import type { Books, ProcessFigures } from "./messages.ts";

/** `undici` is Farebox again, with its other engine. */
export const targetNames = ["direct", "bare", "farebox", "undici"] as const;
export type TargetName = (typeof targetNames)[number];

const gatewayKey = "sk-sandbox";

/** What the load generator sends to: the gateway itself, or a proxy before it. */
export interface Target {
  readonly name: TargetName;
  readonly port: number;
  readonly key: string;
  /** Requests that it has been sent: what its books must agree with. */
  sent: number;
  /** Null where there is no proxy. */
  figures(): Promise<ProcessFigures | null>;
  /** Null where none are kept. */
  books(): Promise<Books | null>;
}

export interface Targets extends AsyncDisposable {
  readonly all: readonly Target[];
}

/** A gateway and, before it, the proxies: each a process of its own. */
export async function startTargets(order: {
  readonly gateway: Extract<ProgramName, "gateway" | "paced-gateway">;
  readonly chunks: number;
  readonly profile: string | null;
}): Promise<Targets> {
  await using owned = new AsyncDisposableStack();
  const { chunks } = order;
  const gateway = owned.use(await Child.start(order.gateway, { gatewayUrl: "", gatewayKey, chunks, engine: "http-proxy-middleware", profile: null }));
  const engine = "http-proxy-middleware";
  const behind = { gatewayUrl: `http://127.0.0.1:${gateway.port}`, gatewayKey, chunks, engine, profile: order.profile } as const;
  const bare = owned.use(await Child.start("bare", behind));
  const farebox = owned.use(await Child.start("farebox", behind));
  const undici = owned.use(await Child.start("farebox", { ...behind, engine: "undici" }));
  const all = [
    targetOf("direct", gateway, { figures: false, books: false }),
    targetOf("bare", bare, { figures: true, books: false }),
    targetOf("farebox", farebox, { figures: true, books: true }),
    targetOf("undici", undici, { figures: true, books: true }),
  ];
  const kept = owned.move();
  return { all, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

function targetOf(name: TargetName, child: Child, has: { readonly figures: boolean; readonly books: boolean }): Target {
  return {
    name,
    port: child.port,
    key: child.key,
    sent: 0,
    figures: async () => (has.figures ? child.ask("figures") : null),
    books: async () => (has.books ? child.ask("books") : null),
  };
}
