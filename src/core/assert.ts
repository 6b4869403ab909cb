/** Marks a branch that the types rule out; reaching it is a bug. */
export function assertNever(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}

/** States an invariant; a failure is a bug in Farebox, never a fault of the input. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`);
}
