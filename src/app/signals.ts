/** Exit code of a process that a signal ended, after the custom of shells. */
const endedBySignal = 130;

/** Resolves at the first SIGTERM or SIGINT; a second one ends the process at once. */
export function firstSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    // A pending promise alone does not keep the process alive; a server usually does, but not while it closes.
    const alive = setInterval(() => undefined, 2 ** 30);
    let seen = false;
    const heard = (signal: NodeJS.Signals): void => {
      if (seen) process.exit(endedBySignal);
      seen = true;
      clearInterval(alive);
      resolve(signal);
    };
    process.on("SIGTERM", heard);
    process.on("SIGINT", heard);
  });
}
