/** An internal key as it is stored: its secret only as a digest. Times are milliseconds since 1970 UTC. */
export interface Key {
  /** Short and public: the middle part of `sk-fb-<id>-<secret>`. */
  readonly id: string;
  readonly name: string;
  readonly team: string | null;
  /** SHA-256 of the whole key text, lower-case hex. */
  readonly digest: string;
  /** Wildcard patterns of the models it may use; null for all. */
  readonly models: readonly string[] | null;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

/** What names of keys, teams and admins look like. */
export const namePattern = /^[a-z0-9][a-z0-9._-]{0,62}$/;

/** Whether a key still opens anything at this instant. */
export function isLive(key: Pick<Key, "revokedAt" | "expiresAt">, at: number): boolean {
  return key.revokedAt === null && (key.expiresAt === null || at < key.expiresAt);
}

/**
 * Whether the key may use a model, given by all its names (the one asked for, the catalogue's id): one that matches is
 * enough. `*` in a pattern stands for any run of characters.
 */
export function mayUse(key: Key, ...names: readonly string[]): boolean {
  return key.models === null || key.models.some((pattern) => names.some((name) => matchesPattern(pattern, name)));
}

/** Whether a name fits a pattern in which `*` stands for any run of characters. */
export function matchesPattern(pattern: string, text: string): boolean {
  const pieces = pattern.split("*");
  const first = pieces[0] ?? "";
  if (pieces.length === 1) return text === first;
  const last = pieces[pieces.length - 1] ?? "";
  if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
  let position = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const found = text.indexOf(piece, position);
    if (found === -1) return false;
    position = found + piece.length;
  }
  return position <= text.length - last.length;
}
