import { isObject } from "../wire/json.ts";
import type { RunTokens } from "./billing.ts";
import { fieldsIn, type Fields } from "./chat-request.ts";
import { digest } from "./random.ts";
import { countTokens } from "./text.ts";

type Lifetime = "5m" | "1h";

/** Part of the prompt of a request to /v1/messages: a tool, or a block of the system prompt or of a message. */
export interface PromptBlock {
  /** JSON without `cache_control`, which does not change what the model reads. */
  readonly json: string;
  readonly tokens: number;
  /** Lifetime of the cache entry that ends at this block; undefined if none does. */
  readonly cachedFor: Lifetime | undefined;
}

/** Tokens that each message has in addition to its content. */
const tokensOfMessage = 3;

/** Tokens of an image or a document, whatever its size. */
const tokensOfSource = 1500;

/** Returns the blocks of a prompt in the order in which they are cached: tools, system prompt, messages. */
export function promptBlocks({ tools, system, messages, cache_control: ofLast }: Fields): PromptBlock[] {
  const blocks = [
    ...fieldsIn(tools).map((tool) => blockOf("tool", tool)),
    ...contentOf(system).map((part) => blockOf("system", part)),
    ...fieldsIn(messages).flatMap(({ role, content }) =>
      contentOf(content).map((part, index) => blockOf(String(role), part, index === 0 ? tokensOfMessage : 0)),
    ),
  ];
  const last = blocks.pop();
  if (last === undefined) return blocks;
  return [...blocks, isObject(ofLast) ? { ...last, cachedFor: lifetimeIn(ofLast) } : last];
}

function contentOf(content: unknown): readonly Fields[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : fieldsIn(content);
}

function blockOf(place: string, { cache_control: cache, ...part }: Fields, more = 0): PromptBlock {
  return {
    json: JSON.stringify([place, part]),
    tokens: more + tokensOf(part),
    cachedFor: isObject(cache) ? lifetimeIn(cache) : undefined,
  };
}

function lifetimeIn({ ttl }: Fields): Lifetime {
  return ttl === "1h" ? "1h" : "5m";
}

function tokensOf({ source, ...part }: Fields): number {
  if (typeof part["text"] === "string") return countTokens(part["text"]);
  if (isObject(source)) return tokensOfSource + countTokens(JSON.stringify(part));
  const { content } = part;
  if (Array.isArray(content)) return fieldsIn(content).reduce((total, inner) => total + tokensOf(inner), 4);
  return countTokens(JSON.stringify(part));
}

/** Shortest prefix that is cached, in tokens. */
const tokensMin = 1024;

/** Number of blocks before a breakpoint in which an earlier entry is found. */
const blocksBack = 20;

const lifetimeMs: Readonly<Record<Lifetime, number>> = { "5m": 300_000, "1h": 3_600_000 };

type PromptTokens = Omit<RunTokens, "output">;

/** Prompt cache: contains the beginnings of prompts up to their breakpoints, for each model. */
export class PromptCache {
  readonly #now: () => number;
  readonly #entries = new Map<string, { readonly lifetime: Lifetime; readonly until: number }>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Divides a prompt into cached, written and other tokens. `store` writes its entries and renews the one that was read. */
  use(model: string, blocks: readonly PromptBlock[]): { readonly tokens: PromptTokens; readonly store: () => void } {
    const prefixes = prefixesOf(model, blocks);
    const breakpoints = prefixes.flatMap((prefix, index) =>
      prefix.cachedFor === undefined || prefix.tokens < tokensMin
        ? []
        : [{ ...prefix, index, lifetime: prefix.cachedFor }],
    );
    const read = breakpoints
      .flatMap(({ index }) => prefixes.slice(Math.max(index - blocksBack + 1, 0), index + 1))
      .filter(({ key }) => this.#isAlive(key))
      .reduce((longest, prefix) => (prefix.tokens > longest.tokens ? prefix : longest), { key: "", tokens: 0 });
    const written = breakpoints.filter(({ tokens }) => tokens > read.tokens);
    const end = (lifetime?: Lifetime) =>
      written
        .filter((prefix) => lifetime === undefined || prefix.lifetime === lifetime)
        .reduce((most, { tokens }) => Math.max(most, tokens), read.tokens);
    const tokens = {
      cached: read.tokens,
      writtenForAnHour: end("1h") - read.tokens,
      written: end() - end("1h"),
      input: (prefixes.at(-1)?.tokens ?? 0) - end(),
    };
    const store = () => {
      this.#renew(read.key);
      for (const { key, lifetime } of written) this.#put(key, lifetime);
    };
    return { tokens, store };
  }

  #isAlive(key: string): boolean {
    return (this.#entries.get(key)?.until ?? 0) > this.#now();
  }

  #renew(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) this.#put(key, entry.lifetime);
  }

  #put(key: string, lifetime: Lifetime): void {
    this.#entries.set(key, { lifetime, until: this.#now() + lifetimeMs[lifetime] });
  }
}

/** Returns each beginning of the prompt, with its number of tokens. */
function prefixesOf(model: string, blocks: readonly PromptBlock[]) {
  let key = model;
  let tokens = 0;
  return blocks.map((block) => {
    key = digest(key, block.json);
    tokens += block.tokens;
    return { key, tokens, cachedFor: block.cachedFor };
  });
}
