/** Exit code of a process that a signal ended, as in shells. */
const endedBySignal = 130;

/** Resolves at the first SIGTERM or SIGINT. A second one ends the process at once. Does not keep the process alive. */
export function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let seen = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (seen) process.exit(endedBySignal);
      seen = true;
      resolve(signal);
    };
    process.on("SIGTERM", onSignal);
    process.on("SIGINT", onSignal);
  });
}
